/* The sampled softmax with its gradients. Part of kernel.c. */

enum { SOFTMAX_ROWS = 256 }; /* rows whose logits are in memory at once */

static product logits_of(const softmax_job *job) { /* h samples' + offsets */
    return (product){.num_columns = job->num_samples, .depth = job->dim,
                     .a_row = job->dim, .a_depth = 1, .b = job->samples, .b_depth = 1,
                     .b_column = job->dim, .bias = job->sample_offsets,
                     .out_row = job->num_samples, .panels = job->to_logits};
}

static product grad_h_of(const softmax_job *job) { /* p samples */
    return (product){.num_columns = job->dim, .depth = job->num_samples,
                     .a_row = job->num_samples, .a_depth = 1, .b = job->samples,
                     .b_depth = job->dim, .b_column = 1, .out_row = job->dim,
                     .panels = job->from_logits};
}

/* The samples as panels, once for all jobs: those for the logits, or those for the way back. */
void SUFFIX(softmax_pack)(const softmax_job *job, int is_back) {
    product p = is_back ? grad_h_of(job) : logits_of(job);
    SUFFIX(pack_product)(&p);
}

INLINE float add_up(vec x) {
    float sum = 0;
    for (int i = 0; i < VL; i++) sum += x[i];
    return sum;
}

static float dot(const float *x, const float *y, int64_t n) {
    vec sum = all(0.0f);
    for (int64_t i = 0; i < n; i += VL) sum += load_some(x + i, n - i) * load_some(y + i, n - i);
    return add_up(sum);
}

/* Logits to probabilities, whose sums over the rows are the gradients of the offsets. */
static void probabilities(const softmax_job *job, int64_t row, float *logits) {
    const int64_t n = job->num_samples, word = job->targets[row], hit = job->hits[row];
    const float truth = job->offsets[word] +
                        dot(job->h + row * job->dim, job->weight + word * job->dim, job->dim);
    if (hit >= 0) logits[hit] = -__builtin_inff();
    vec most_of = all(truth);
    for (int64_t i = 0; i + VL <= n; i += VL) most_of = most(most_of, load(logits + i));
    float largest = truth;
    for (int i = 0; i < VL; i++) largest = most_of[i] > largest ? most_of[i] : largest;
    for (int64_t i = n / VL * VL; i < n; i++) largest = logits[i] > largest ? logits[i] : largest;
    vec sum = all(0.0f);
    for (int64_t i = 0; i < n; i += VL) {
        vec e = exp_within(load_some(logits + i, n - i) - all(largest), 87.0f);
        store_some(logits + i, e, n - i);
        sum += load_some(logits + i, n - i);
    }
    if (hit >= 0) logits[hit] = 0;
    const float true_part = exp_within(all(truth - largest), 87.0f)[0];
    const float total = add_up(sum) + true_part, share = 1 / total;
    for (int64_t i = 0; i < n; i += VL) {
        vec p = load_some(logits + i, n - i) * all(share);
        store_some(logits + i, p, n - i);
        store_some(job->grad_offsets + i, load_some(job->grad_offsets + i, n - i) + p, n - i);
    }
    job->largest[row] = largest;
    job->total[row] = total;
    job->truth[row] = truth;
    job->grad_true[row] = true_part * share - 1;
}

void SUFFIX(softmax_run)(const softmax_job *job) {
    const int64_t dim = job->dim, n = job->num_samples;
    float *logits = job->scratch, *panels = logits + SOFTMAX_ROWS * n;
    float *block = panels + SOFTMAX_ROWS * ((dim + PANEL - 1) / PANEL * PANEL);
    for (int64_t first = 0; first < job->num_rows; first += SOFTMAX_ROWS) {
        const int64_t left = job->num_rows - first;
        const int64_t rows = left < SOFTMAX_ROWS ? left : SOFTMAX_ROWS;
        const float *h = job->h + first * dim;
        float *grad_h = job->grad_h + first * dim;
        product forward = logits_of(job), back = grad_h_of(job);
        forward.num_rows = back.num_rows = rows;
        forward.is_packed = back.is_packed = 1;
        forward.a = h, forward.out = logits;
        SUFFIX(multiply_matrices)(&forward);
        for (int64_t r = 0; r < rows; r++) probabilities(job, first + r, logits + r * n);
        back.a = logits, back.out = grad_h;
        SUFFIX(multiply_matrices)(&back);
        for (int64_t r = 0; r < rows; r++) {
            const float *w = job->weight + job->targets[first + r] * dim;
            for (int64_t i = 0; i < dim; i++) grad_h[r * dim + i] += job->grad_true[first + r] * w[i];
        }
        SUFFIX(multiply_matrices)(&(product){ /* p' h */
            .num_rows = n, .num_columns = dim, .depth = rows, .a = logits, .a_row = 1,
            .a_depth = n, .b = h, .b_depth = dim, .b_column = 1, .adds = first > 0,
            .out = job->grad_samples, .out_row = dim, .panels = panels, .block = block});
    }
}

int64_t SUFFIX(softmax_scratch)(const softmax_job *job) {
    const int64_t width = (job->dim + PANEL - 1) / PANEL * PANEL;
    return SOFTMAX_ROWS * (job->num_samples + width) + SUFFIX(product_block)();
}

/* out[index[row]] += scales[row] rows[row]. */
void SUFFIX(add_rows)(int64_t num_rows, int64_t dim, const int64_t *index, const float *scales,
                      const float *rows, float *out) {
    for (int64_t row = 0; row < num_rows; row++)
        for (int64_t i = 0; i < dim; i++) out[index[row] * dim + i] += scales[row] * rows[row * dim + i];
}
