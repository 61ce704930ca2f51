/* The layer with what its backward pass needs, and the filters. Part of kernel.c, whose products
 * they share. Sentences and filters are independent of each other, so threads may work on the same
 * buffers, each on sentences (or filters) of its own. */

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

/* Some sentences at one step: their rows of the buffers that have one per token, and those of h and
 * c, which begin with the states before the first step. */
typedef struct {
    int64_t row, state, before, num_rows;
    int is_first;
} step_rows;

/* The sentences first … end at a step whose first row is `row`. */
INLINE step_rows rows_of_step(const layer_training *run, int64_t step, int64_t row, int64_t first,
                              int64_t end) {
    int64_t active = run->counts[step], last = active < end ? active : end;
    int64_t before = step ? run->num_sentences + row - run->counts[step - 1] : 0;
    return (step_rows){row + first, run->num_sentences + row + first, before + first, last - first,
                       step == 0};
}

static void training_cells(const layer_training *run, const step_rows *at) {
    const int64_t dim = run->dim, width = run->output_dim;
    const int block = block_size(at->num_rows);
    for (int64_t unit = 0; unit < dim; unit += VL) {
        const float *w = run->recurrent + unit * GATES * width;
        for (int64_t b = 0; b < at->num_rows; b += block) {
            int mr = at->num_rows - b < block ? (int)(at->num_rows - b) : block;
            training_rows rows = {
                .at = {.h = run->h + (at->before + b) * width,
                       .c = run->c + (at->state + b) * dim + unit,
                       .m = run->m + (at->row + b) * dim + unit},
                .gates = run->gates + (at->row + b) * GATES * dim + unit * GATES,
                .before = run->c + (at->before + b) * dim + unit,
                .clip_before = at->is_first ? 0 : run->cell_clip};
            for (int r = 0; r < mr; r++) rows.at.gates[r] = rows.gates + r * GATES * dim;
            FOR_ROWS(mr, training_block(R, run, &rows, w))
        }
    }
}

void SUFFIX(layer_forward)(const layer_training *run, int64_t first, int64_t end) {
    const int64_t width = run->output_dim;
    for (int64_t step = 0, row = 0; step < run->num_steps; row += run->counts[step++]) {
        step_rows at = rows_of_step(run, step, row, first, end);
        if (at.num_rows <= 0) return;
        training_cells(run, &at);
        if (!run->projection) continue;
        float *h = run->h + at.state * width, *raw = run->raw ? run->raw + at.row * width : h;
        project(run->projection, run->dim, width, run->m + at.row * run->dim, at.num_rows, raw, 0,
                0);
        for (int64_t i = 0; run->raw && i < at.num_rows * width; i += VL)
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

static void backward_cells(const layer_training *run, const layer_gradients *grads, int64_t first,
                           const step_rows *at) {
    const int64_t dim = run->dim, width = run->output_dim;
    const int block = block_size(at->num_rows);
    for (int64_t unit = 0; unit < dim; unit += PANEL) {
        const float *w = run->projection ? run->projection_back + unit * width : NULL;
        for (int64_t b = 0; b < at->num_rows; b += block) {
            int mr = at->num_rows - b < block ? (int)(at->num_rows - b) : block;
            backward_rows rows = {
                .grad_h = grads->grad_h + (at->row + b) * width + (w ? 0 : unit),
                .c = run->c + (at->state + b) * dim + unit,
                .before = run->c + (at->before + b) * dim + unit,
                .gates = run->gates + ((at->row + b) * dim + unit) * GATES,
                .grad_c = grads->grad_c + (first + b) * dim + unit,
                .grad_bias = grads->grad_bias + unit * GATES,
                .clip_before = at->is_first ? 0 : run->cell_clip};
            FOR_ROWS(mr, backward_block(R, run, &rows, w))
        }
    }
}

void SUFFIX(layer_backward)(const layer_training *run, const layer_gradients *grads, int64_t first,
                            int64_t end) {
    const int64_t width = run->output_dim;
    int64_t row = 0;
    for (int64_t step = 0; step < run->num_steps; step++) row += run->counts[step];
    for (int64_t step = run->num_steps - 1; step >= 0; step--) {
        row -= run->counts[step];
        step_rows at = rows_of_step(run, step, row, first, end);
        if (at.num_rows <= 0) continue;
        float *grad_h = grads->grad_h + at.row * width;
        for (int64_t i = 0; run->raw && i < at.num_rows * width; i += VL)
            store(grad_h + i, where_within(load(grad_h + i), load(run->raw + at.row * width + i),
                                           run->proj_clip));
        backward_cells(run, grads, first, &at);
        if (step)
            project(run->recurrent_back, GATES * run->dim, width,
                    run->gates + at.row * GATES * run->dim, at.num_rows,
                    grad_h - run->counts[step - 1] * width, 1, 0);
    }
}

/* The largest sum of one vector of filters over the places of a word, which is what convolution and
 * max-pooling give; with the first such place, if it is wanted. */
INLINE void best_place(const filter_bank *bank, const int32_t *ids, int64_t num_places, int64_t f,
                       int64_t n, int with_place, vec *best, ivec *where) {
    const int64_t row = bank->num_filters;
    const vec bias = load_some(bank->bias + f, n);
    *best = all(-__builtin_inff());
    *where = (ivec){0};
    for (int64_t p = 0; p < num_places; p++) {
        vec sum = bias;
        const float *table = bank->table + f;
        for (int64_t k = 0; k < bank->width; k++, table += bank->num_characters * row)
            sum += load_some(table + ids[p + k] * row, n);
        if (!with_place) {
            *best = most(*best, sum);
            continue;
        }
        /* What is not a number stays, to be seen. */
        ivec better = ~(ivec)(sum <= *best) & (ivec)(*best == *best);
        *best = (vec)(((ivec)sum & better) | ((ivec)*best & ~better));
        *where = (((ivec){0} + (int32_t)p) & better) | (*where & ~better);
    }
}

INLINE void filter_word(const filter_bank *bank, const int32_t *ids, int64_t num_places,
                        int with_place, float *out, int32_t *places) {
    for (int64_t f = 0; f < bank->num_filters; f += VL) {
        int64_t n = bank->num_filters - f;
        vec best;
        ivec where;
        if (n >= VL)
            best_place(bank, ids, num_places, f, VL, with_place, &best, &where);
        else
            best_place(bank, ids, num_places, f, n, with_place, &best, &where);
        store_some(out + f, best, n);
        if (with_place)
            memcpy(places + f, &where, (size_t)(n < VL ? n : VL) * sizeof(int32_t));
    }
}

/* Windows that lie wholly in the padding are all alike, so one of them is enough. The places of the
 * maxima are for the way back; null: not wanted. */
void SUFFIX(filters_forward)(const filter_bank *bank, const int32_t *characters, int64_t num_words,
                             const int64_t *lengths, float *out, int32_t *places) {
    for (int64_t word = 0; word < num_words; word++) {
        const int32_t *ids = characters + word * bank->max_characters;
        int64_t last = bank->max_characters - bank->width;
        int64_t num_places = (lengths[word] < last ? lengths[word] : last) + 1;
        int64_t at = word * bank->stride;
        if (places)
            filter_word(bank, ids, num_places, 1, out + at, places + at);
        else
            filter_word(bank, ids, num_places, 0, out + at, NULL);
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
