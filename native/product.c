/* Matrix products of any shape, for training, whose operands change with every step. Part of
 * kernel.c, whose multiply they share. */

enum { PRODUCT_ROWS = 16 * MR }; /* rows of `a` that stay in the cache while `b` passes by */

/* b[depth][columns] as [K blocks][panels][depth][PANEL], the last panel filled up with zeros. */
void SUFFIX(pack_product)(const product *p) {
    const int64_t width = p->num_columns;
    float *out = p->panels;
    for (int64_t k = 0; k < p->depth; k += K_BLOCK) {
        const int64_t depth = p->depth - k < K_BLOCK ? p->depth - k : K_BLOCK;
        for (int64_t first = 0; first < width; first += PANEL, out += depth * PANEL) {
            const int64_t n = width - first < PANEL ? width - first : PANEL;
            const float *b = p->b + k * p->b_depth + first * p->b_column;
            if (n < PANEL) memset(out, 0, (size_t)(depth * PANEL) * sizeof(float));
            if (p->b_column == 1) {
                for (int64_t i = 0; i < depth; i++)
                    memcpy(out + i * PANEL, b + i * p->b_depth, (size_t)n * sizeof(float));
            } else { /* a few cache lines of `out` at a time */
                for (int64_t start = 0; start < depth; start += VL) {
                    const int64_t end = start + VL < depth ? start + VL : depth;
                    for (int64_t j = 0; j < n; j++)
                        for (int64_t i = start; i < end; i++)
                            out[i * PANEL + j] = b[i * p->b_depth + j * p->b_column];
                }
            }
        }
    }
}

/* A panel of a few rows: out = start + a b. Where `a` is a copy, its rows are columns. */
INLINE void product_few(int mr, const float *a, int64_t row, int64_t column, const float *w,
                          int64_t depth, const float *start, int64_t start_row, float *out,
                          int64_t out_row, int64_t n) {
    vec acc[MR][NV];
    for (int r = 0; r < mr; r++)
        for (int v = 0; v < NV; v++) {
            acc[r][v] = all(0.0f);
            if (start && n > v * VL) acc[r][v] = load_some(start + r * start_row + v * VL, n - v * VL);
        }
    multiply(mr, NV, acc, a, row, column, w, depth);
    for (int r = 0; r < mr; r++)
        for (int v = 0; v < NV && n > v * VL; v++)
            store_some(out + r * out_row + v * VL, acc[r][v], n - v * VL);
}

/* Some rows of one K block: all panels, which `w` has. */
static void product_rows(const product *p, const float *a, int64_t row, int64_t column,
                         int64_t first, int64_t num_rows, int is_first, const float *w,
                         int64_t depth) {
    const int block = block_size(num_rows);
    for (int64_t c = 0; c < p->num_columns; c += PANEL, w += depth * PANEL) {
        const int64_t n = p->num_columns - c < PANEL ? p->num_columns - c : PANEL;
        for (int64_t b = 0; b < num_rows; b += block) {
            const int mr = num_rows - b < block ? (int)(num_rows - b) : block;
            float *out = p->out + (first + b) * p->out_row + c;
            const float *start = is_first && !p->adds ? (p->bias ? p->bias + c : NULL) : out;
            const int64_t start_row = start == out ? p->out_row : 0;
            const float *x = a + b * row;
            if (column == 1 && n == PANEL) {
                FOR_ROWS(mr, product_few(R, x, row, 1, w, depth, start, start_row, out,
                                           p->out_row, PANEL))
            } else if (n == PANEL) {
                FOR_ROWS(mr, product_few(R, x, 1, PRODUCT_ROWS, w, depth, start, start_row, out,
                                           p->out_row, PANEL))
            } else {
                FOR_ROWS(mr, product_few(R, x, row, column, w, depth, start, start_row, out,
                                           p->out_row, n))
            }
        }
    }
}

void SUFFIX(multiply_matrices)(const product *p) {
    const int64_t width = (p->num_columns + PANEL - 1) / PANEL * PANEL;
    if (!p->is_packed) SUFFIX(pack_product)(p);
    for (int64_t k = 0; k < p->depth; k += K_BLOCK) {
        const int64_t depth = p->depth - k < K_BLOCK ? p->depth - k : K_BLOCK;
        const float *w = p->panels + k * width;
        for (int64_t first = 0; first < p->num_rows; first += PRODUCT_ROWS) {
            const int64_t left = p->num_rows - first;
            const int64_t n = left < PRODUCT_ROWS ? left : PRODUCT_ROWS;
            const float *a = p->a + first * p->a_row + k * p->a_depth;
            if (p->a_depth == 1) {
                product_rows(p, a, p->a_row, 1, first, n, !k, w, depth);
                continue;
            }
            for (int64_t i = 0; i < depth; i++)
                for (int64_t r = 0; r < n; r++)
                    p->block[i * PRODUCT_ROWS + r] = a[i * p->a_depth + r * p->a_row];
            product_rows(p, p->block, 1, PRODUCT_ROWS, first, n, !k, w, depth);
        }
    }
}

int64_t SUFFIX(product_panels)(const product *p) {
    return p->depth * ((p->num_columns + PANEL - 1) / PANEL * PANEL);
}

int64_t SUFFIX(product_block)(void) { return K_BLOCK * PRODUCT_ROWS; }
