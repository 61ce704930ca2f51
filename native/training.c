/* Training: the layer and the filters with what their backward passes need. Part of kernel.c,
 * whose products they share. Rows and filters are independent of each other, so threads may work
 * on the same buffers, each on rows (or filters) of its own. */

/* Moves one vector of units one step on; what enters as sums leaves as activations. */
INLINE void activate_gates(vec z[GATES], vec before, float clip, vec *raw, vec *m) {
    const vec one = all(1.0f);
    vec ei = one + exp28(-z[0]), ef = one + exp28(-z[1]), eg = exp28(-2.0f * z[2]);
    vec eo = one + exp28(-z[3]), tg = one + eg, all_three = one / (ei * ef * tg);
    z[0] = all_three * ef * tg;
    z[1] = all_three * ei * tg;
    z[2] = (one - eg) * (all_three * ei * ef);
    *raw = z[1] * before + z[0] * z[2];
    vec ec = exp28(-2.0f * (clip > 0 ? clamp(*raw, clip) : *raw)), tc = one + ec;
    vec both = one / (eo * tc);
    z[3] = both * tc;
    *m = (one - ec) * both;
}

/* The same for a gated recurrent unit, whose cell is its output: r, z, and n = tanh(z[2] + r z[3]),
 * where z[2] is what the input gives and z[3] what the state gives, which stays as it is. */
INLINE void activate_gru(vec z[GATES], vec before, vec *h) {
    const vec one = all(1.0f);
    vec er = one + exp28(-z[0]), ez = one + exp28(-z[1]), both = one / (er * ez);
    z[0] = both * ez;
    z[1] = both * er;
    vec en = exp28(-2.0f * (z[2] + z[0] * z[3]));
    z[2] = (one - en) / (one + en);
    *h = z[2] + z[1] * (before - z[2]);
}

typedef struct {
    cell_rows at;
    float *gates;        /* of the first row, at this block of units */
    const float *before; /* likewise the cells of the step before */
    float clip_before;
} training_rows;

INLINE void training_block(int mr, const layer_training *run, const training_rows *rows,
                           const float *w) {
    vec sums[MR][GATES];
    gate_sums(mr, sums, &rows->at, run->output_dim, w);
    for (int r = 0; r < mr; r++) {
        vec before = load(rows->before + r * run->dim), raw, m;
        if (rows->clip_before > 0) before = clamp(before, rows->clip_before);
        if (run->is_gru) {
            activate_gru(sums[r], before, &raw);
            m = raw;
        } else {
            activate_gates(sums[r], before, run->cell_clip, &raw, &m);
        }
        for (int gate = 0; gate < GATES; gate++)
            store(rows->gates + r * GATES * run->dim + gate * VL, sums[r][gate]);
        store(rows->at.c + r * run->dim, raw);
        store(rows->at.m + r * run->dim, m);
    }
}

/* The cells of one step, of the num_rows rows that begin at `row` of all rows of all steps. */
static void training_cells(const layer_training *run, int64_t step, int64_t row, int64_t num_rows) {
    const int64_t dim = run->dim, width = run->output_dim;
    const int block = block_size(num_rows);
    for (int64_t unit = 0; unit < dim; unit += VL) {
        const float *w = run->recurrent + unit * GATES * width;
        for (int64_t b = row; b < row + num_rows; b += block) {
            int mr = row + num_rows - b < block ? (int)(row + num_rows - b) : block;
            training_rows rows = {
                .at = {.h = run->h + b * width,
                       .c = run->c + (b + run->num_rows) * dim + unit,
                       .m = run->m + b * dim + unit},
                .gates = run->gates + b * GATES * dim + unit * GATES,
                .before = run->c + b * dim + unit,
                .clip_before = step ? run->cell_clip : 0};
            for (int r = 0; r < mr; r++) rows.at.gates[r] = rows.gates + r * GATES * dim;
            FOR_ROWS(mr, training_block(R, run, &rows, w))
        }
    }
}

void SUFFIX(layer_forward)(const layer_training *run, int64_t first, int64_t end) {
    const int64_t width = run->output_dim, n = end - first;
    if (n <= 0) return;
    for (int64_t step = 0; step < run->num_steps; step++) {
        int64_t row = step * run->num_rows + first;
        float *h = run->h + (row + run->num_rows) * width;
        training_cells(run, step, row, n);
        if (!run->projection) continue;
        float *raw = run->raw ? run->raw + row * width : h;
        project(run->projection, run->dim, width, run->m + row * run->dim, n, raw, 0, 0);
        for (int64_t i = 0; run->raw && i < n * width; i += VL)
            store(h + i, clamp(load(raw + i), run->proj_clip));
    }
}

/* x where the value was not clipped; torch lets the bound itself pass. */
INLINE vec where_within(vec x, vec value, float limit) {
    return (vec)((ivec)x & (value <= all(limit)) & (value >= all(-limit)));
}

/* From dL/dm and the next step's dL/dc to dL/dgates and dL/dc_before, for one vector of units. */
INLINE void gates_back(const layer_training *run, vec dm, const float *c, const float *c_before,
                       float clip_before, const float *gates, float *grad_c, vec grads[GATES]) {
    const vec one = all(1.0f);
    vec i = load(gates), f = load(gates + VL), g = load(gates + 2 * VL), o = load(gates + 3 * VL);
    vec raw = load(c), before = load(c_before), cell = raw;
    if (clip_before > 0) before = clamp(before, clip_before);
    if (run->cell_clip > 0) cell = clamp(raw, run->cell_clip);
    vec tc = all(2.0f) / (one + exp28(-2.0f * cell)) - one;
    vec dc = load(grad_c) + dm * o * (one - tc * tc);
    if (run->cell_clip > 0) dc = where_within(dc, raw, run->cell_clip);
    grads[0] = dc * g * i * (one - i);
    grads[1] = dc * before * f * (one - f);
    grads[2] = dc * i * (one - g * g);
    grads[3] = dm * tc * o * (one - o);
    store(grad_c, dc * f);
}

INLINE void gru_back(vec dh, const float *h_before, const float *gates, float *grad_c,
                     vec grads[GATES]) {
    const vec one = all(1.0f);
    vec r = load(gates), z = load(gates + VL), n = load(gates + 2 * VL), state = load(gates + 3 * VL);
    dh += load(grad_c);
    vec dn = dh * (one - z) * (one - n * n);
    grads[0] = dn * state * r * (one - r);
    grads[1] = dh * (load(h_before) - n) * z * (one - z);
    grads[2] = dn;
    grads[3] = dn * r;
    store(grad_c, dh * z);
}

typedef struct {
    const float *grad_h, *c, *before;
    float *gates, *grad_c, *grad_bias;
    float clip_before;
} backward_rows;

/* A panel of units of a few rows: dm = dh W_projection stays in registers. */
INLINE void backward_block(int mr, const layer_training *run, const backward_rows *rows,
                           const float *w) {
    const int64_t dim = run->dim, width = run->output_dim;
    vec acc[MR][NV] = {{{0}}};
    if (w) {
        multiply(mr, NV, acc, rows->grad_h, width, 1, w, width);
    } else {
        for (int r = 0; r < mr; r++)
            for (int v = 0; v < NV; v++) acc[r][v] = load(rows->grad_h + r * width + v * VL);
    }
    for (int v = 0; v < NV; v++) {
        vec sums[GATES] = {{0}};
        for (int r = 0; r < mr; r++) {
            int64_t at = r * dim + v * VL;
            float *gates = rows->gates + at * GATES, *grad_c = rows->grad_c + at;
            vec grads[GATES];
            if (run->is_gru)
                gru_back(acc[r][v], rows->before + at, gates, grad_c, grads);
            else
                gates_back(run, acc[r][v], rows->c + at, rows->before + at, rows->clip_before,
                           gates, grad_c, grads);
#pragma GCC unroll 4
            for (int gate = 0; gate < GATES; gate++) {
                store(gates + gate * VL, grads[gate]);
                sums[gate] += grads[gate];
            }
        }
        for (int gate = 0; gate < GATES; gate++) {
            float *bias = rows->grad_bias + (v * GATES + gate) * VL;
            store(bias, load(bias) + sums[gate]);
        }
    }
}

static void backward_cells(const layer_training *run, const layer_gradients *grads, int64_t step,
                           int64_t first, int64_t num_rows) {
    const int64_t dim = run->dim, width = run->output_dim, row = step * run->num_rows + first;
    const int block = block_size(num_rows);
    for (int64_t unit = 0; unit < dim; unit += PANEL) {
        const float *w = run->projection ? run->projection_back + unit * width : NULL;
        for (int64_t b = 0; b < num_rows; b += block) {
            int mr = num_rows - b < block ? (int)(num_rows - b) : block;
            backward_rows rows = {
                .grad_h = grads->grad_h + (row + b) * width + (w ? 0 : unit),
                .c = run->c + (row + b + run->num_rows) * dim + unit,
                .before = run->c + (row + b) * dim + unit,
                .gates = run->gates + ((row + b) * dim + unit) * GATES,
                .grad_c = grads->grad_c + (first + b) * dim + unit,
                .grad_bias = grads->grad_bias + unit * GATES,
                .clip_before = step ? run->cell_clip : 0};
            FOR_ROWS(mr, backward_block(R, run, &rows, w))
        }
    }
}

void SUFFIX(layer_backward)(const layer_training *run, const layer_gradients *grads, int64_t first,
                            int64_t end) {
    const int64_t width = run->output_dim, n = end - first;
    if (n <= 0) return;
    for (int64_t step = run->num_steps - 1; step >= 0; step--) {
        int64_t row = step * run->num_rows + first;
        float *grad_h = grads->grad_h + row * width;
        for (int64_t i = 0; run->raw && i < n * width; i += VL)
            store(grad_h + i, where_within(load(grad_h + i), load(run->raw + row * width + i),
                                           run->proj_clip));
        backward_cells(run, grads, step, first, n);
        if (step)
            project(run->recurrent_back, GATES * run->dim, width,
                    run->gates + row * GATES * run->dim, n, grad_h - run->num_rows * width, 1, 0);
    }
}

/* The largest sum of one vector of filters over the places of a word, and the first such place. */
INLINE void best_place(const filter_bank *bank, const int32_t *ids, int64_t num_places, int64_t f,
                       int64_t n, vec *best, ivec *where) {
    const int64_t row = bank->num_filters;
    const vec bias = load_some(bank->bias + f, n);
    *best = all(-__builtin_inff());
    *where = (ivec){0};
    for (int64_t p = 0; p < num_places; p++) {
        vec sum = bias;
        const float *table = bank->table + f;
        for (int64_t k = 0; k < bank->width; k++, table += bank->num_characters * row)
            sum += load_some(table + ids[p + k] * row, n);
        /* What is not a number stays, to be seen. */
        ivec better = ~(ivec)(sum <= *best) & (ivec)(*best == *best);
        *best = (vec)(((ivec)sum & better) | ((ivec)*best & ~better));
        *where = (((ivec){0} + (int32_t)p) & better) | (*where & ~better);
    }
}

/* As char_cnn, with the place of each maximum. */
void SUFFIX(filters_forward)(const filter_bank *bank, const int32_t *characters, int64_t num_words,
                             const int64_t *lengths, float *out, int32_t *places) {
    for (int64_t word = 0; word < num_words; word++) {
        const int32_t *ids = characters + word * bank->max_characters;
        int64_t last = bank->max_characters - bank->width;
        int64_t num_places = (lengths[word] < last ? lengths[word] : last) + 1;
        for (int64_t f = 0; f < bank->num_filters; f += VL) {
            int64_t n = bank->num_filters - f, at = word * bank->stride + f;
            vec best;
            ivec where;
            if (n >= VL)
                best_place(bank, ids, num_places, f, VL, &best, &where);
            else
                best_place(bank, ids, num_places, f, n, &best, &where);
            store_some(out + at, best, n);
            memcpy(places + at, &where, (size_t)(n < VL ? n : VL) * sizeof(int32_t));
        }
    }
}

/* Adds the gradient of the filters first … end to the characters that made each maximum. */
void SUFFIX(filters_backward)(const filter_bank *bank, const int32_t *characters, int64_t num_words,
                              const float *grad, const int32_t *places, int64_t first, int64_t end,
                              float *grad_table) {
    const int64_t row = bank->num_filters, next = bank->num_characters * row;
    for (int64_t word = 0; word < num_words; word++) {
        const int32_t *ids = characters + word * bank->max_characters;
        for (int64_t f = first; f < end; f++) {
            float g = grad[word * bank->stride + f];
            if (g == 0) continue;
            const int32_t *window = ids + places[word * bank->stride + f];
            for (int64_t k = 0; k < bank->width; k++)
                grad_table[k * next + window[k] * row + f] += g;
        }
    }
}
