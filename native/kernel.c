/* The hot loops of the biLM, compiled once for each instruction set.
 *
 * VL is the number of floats in a vector; MR sentences times NV vectors are the sums that the
 * registers hold; SUFFIX(name) gives each copy its own names. Plain C with the vector types of GCC and Clang: the
 * same source serves AVX-512, AVX2, SSE and NEON. No threads, no state, no allocation in here.
 *
 * One vector of hidden units at a time: the weights of their four gates stand together
 * ([unit block][4 / NV][input][NV][VL]), so the gates go from the product to the cell without a
 * way through memory.
 */
#include "kernel.h"

#include <string.h>
#ifdef __SSE__
#include <immintrin.h>
#endif

typedef float vec __attribute__((vector_size(VL * 4)));
typedef int32_t ivec __attribute__((vector_size(VL * 4)));

#define INLINE static inline __attribute__((always_inline))

enum { GATES = 4, PANEL = NV * VL, K_BLOCK = 512 };

INLINE vec load(const float *p) {
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

INLINE void store(float *p, vec v) { memcpy(p, &v, sizeof v); }

/* The first n floats, and zeros where there are fewer than a vector. */
INLINE vec load_some(const float *p, int64_t n) {
    if (n >= VL) return load(p);
    vec v = {0};
    memcpy(&v, p, (size_t)n * sizeof(float));
    return v;
}

INLINE void store_some(float *p, vec v, int64_t n) {
    memcpy(p, &v, (size_t)(n < VL ? n : VL) * sizeof(float));
}

INLINE vec all(float x) { return x - (vec){0}; }

#if VL == 16 && defined(__AVX512F__)
INLINE vec least(vec a, vec b) { return (vec)_mm512_min_ps((__m512)a, (__m512)b); }
INLINE vec most(vec a, vec b) { return (vec)_mm512_max_ps((__m512)a, (__m512)b); }
#elif VL == 8 && defined(__AVX__)
INLINE vec least(vec a, vec b) { return (vec)_mm256_min_ps((__m256)a, (__m256)b); }
INLINE vec most(vec a, vec b) { return (vec)_mm256_max_ps((__m256)a, (__m256)b); }
#elif VL == 4 && defined(__SSE__)
INLINE vec least(vec a, vec b) { return (vec)_mm_min_ps((__m128)a, (__m128)b); }
INLINE vec most(vec a, vec b) { return (vec)_mm_max_ps((__m128)a, (__m128)b); }
#else
INLINE vec least(vec a, vec b) {
    ivec m = a < b;
    return (vec)(((ivec)a & m) | ((ivec)b & ~m));
}

INLINE vec most(vec a, vec b) { return -least(-a, -b); }
#endif

/* Both return their second number where one is not a number: so x stays one that is not. */
INLINE vec clamp(vec x, float limit) { return most(all(-limit), least(all(limit), x)); }

/* e^x for |x| <= limit <= 87, to about 2 units in the last place. */
INLINE vec exp_within(vec x, float limit) {
    const float log2e = 1.44269504f, ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number */
    x = clamp(x, limit);
    vec shifted = x * all(log2e) + all(magic);
    vec n = shifted - all(magic);
    vec r = x - n * all(ln2_high) - n * all(ln2_low);
    vec p = all(1.0f / 5040);
    p = p * r + all(1.0f / 720);
    p = p * r + all(1.0f / 120);
    p = p * r + all(1.0f / 24);
    p = p * r + all(1.0f / 6);
    p = p * r + all(0.5f);
    p = p * r + all(1.0f);
    p = p * r + all(1.0f);
    ivec exponent = ((ivec)shifted - (ivec)all(magic) + 127) << 23;
    return p * (vec)exponent;
}

/* For gates: beyond 28 one is open or shut to 1e-12, and the limit keeps products of three such
 * numbers finite. */
INLINE vec exp28(vec x) { return exp_within(x, 28.0f); }

/* σ(f) c + σ(i) tanh(g), by one division instead of three. */
INLINE vec next_cell(vec i, vec f, vec g, vec c) {
    vec one = all(1.0f);
    vec ei = one + exp28(-i), ef = one + exp28(-f), eg = exp28(-2.0f * g);
    vec ig = ei * (one + eg);
    return (c * ig + (one - eg) * ef) / (ef * ig);
}

/* σ(o) tanh(c). */
INLINE vec hidden(vec o, vec c) {
    vec one = all(1.0f), ec = exp28(-2.0f * c);
    return (one - ec) / ((one + exp28(-o)) * (one + ec));
}

/* The same cell with what its backward pass needs: what enters as sums leaves as activations. */
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

/* acc[r] += a[r, i] * w[i] for one i, where a[r, i] is a[r * row + i * column] and w is
 * [k][num_vectors * VL]. */
INLINE void multiply_one(int mr, int num_vectors, vec acc[MR][NV], const float *a, int64_t row,
                         int64_t column, const float *w, int64_t i) {
    vec b[NV];
#pragma GCC unroll 4
    for (int v = 0; v < num_vectors; v++) b[v] = load(w + (i * num_vectors + v) * VL);
#pragma GCC unroll 8
    for (int r = 0; r < mr; r++) {
        vec x = all(a[r * row + i * column]);
#pragma GCC unroll 4
        for (int v = 0; v < num_vectors; v++) acc[r][v] += x * b[v];
    }
}

/* acc[r] += a[r, 0:k] * w. Every number is summed in the order of k, whatever the number of rows,
 * so that a sentence has the same vectors alone and in a batch, to the last bit. */
INLINE void multiply(int mr, int num_vectors, vec acc[MR][NV], const float *a, int64_t row,
                     int64_t column, const float *w, int64_t k) {
    for (int64_t i = 0; i < k; i++) multiply_one(mr, num_vectors, acc, a, row, column, w, i);
}

/* Two panels side by side, each as above. */
INLINE void multiply_two(int mr, vec acc[][MR][NV], const float *a, int64_t lda, const float *w,
                         int64_t k) {
    const float *next = w + k * PANEL;
    for (int64_t i = 0; i < k; i++) {
        multiply_one(mr, NV, acc[0], a, lda, 1, w, i);
        multiply_one(mr, NV, acc[1], a, lda, 1, next, i);
    }
}

/* Rows in a block when n rows make blocks of about equal size: 8 are 4 + 4, not 6 + 2. */
INLINE int block_size(int64_t n) {
    int64_t num_blocks = (n + MR - 1) / MR;
    return (int)((n + num_blocks - 1) / num_blocks);
}

typedef struct {
    const float *gates[MR]; /* input products of the rows, at this block of units */
    const float *h;
    float *c, *m;
} cell_rows;

/* The gates of one vector of units before their activations: input products plus h W. */
INLINE void gate_sums(int mr, vec sums[MR][GATES], const cell_rows *rows, int64_t output_dim,
                      const float *w) {
    enum { PANELS = GATES / NV };
    vec acc[PANELS][MR][NV];
#pragma GCC unroll 4
    for (int p = 0; p < PANELS; p++)
#pragma GCC unroll 8
        for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
            for (int v = 0; v < NV; v++) acc[p][r][v] = load(rows->gates[r] + (p * NV + v) * VL);
    if (PANELS == 2 && mr <= 2) { /* one panel has too few sums to hide the latency of an addition */
        multiply_two(mr, acc, rows->h, output_dim, w, output_dim);
    } else {
#pragma GCC unroll 4
        for (int p = 0; p < PANELS; p++)
            multiply(mr, NV, acc[p], rows->h, output_dim, 1, w + p * output_dim * PANEL,
                     output_dim);
    }
#pragma GCC unroll 4
    for (int p = 0; p < PANELS; p++)
#pragma GCC unroll 8
        for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
            for (int v = 0; v < NV; v++) sums[r][p * NV + v] = acc[p][r][v];
}

INLINE void cell_block(int mr, const lstm_layer *layer, const cell_rows *rows, const float *w) {
    vec sums[MR][GATES];
    gate_sums(mr, sums, rows, layer->output_dim, w);
    for (int r = 0; r < mr; r++) {
        float *cell = rows->c + r * layer->dim;
        vec c = next_cell(sums[r][0], sums[r][1], sums[r][2], load(cell));
        if (layer->cell_clip > 0) c = clamp(c, layer->cell_clip);
        store(cell, c);
        store(rows->m + r * layer->dim, hidden(sums[r][3], c));
    }
}

INLINE void project_block(int mr, int num_vectors, const float *m, int64_t ldm, const float *w,
                          int64_t k, float *out, int64_t ldo, int is_first, float clip) {
    vec acc[MR][NV];
#pragma GCC unroll 8
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
        for (int v = 0; v < num_vectors; v++)
            acc[r][v] = is_first ? all(0.0f) : load(out + r * ldo + v * VL);
    multiply(mr, num_vectors, acc, m, ldm, 1, w, k);
#pragma GCC unroll 8
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
        for (int v = 0; v < num_vectors; v++)
            store(out + r * ldo + v * VL, clip > 0 ? clamp(acc[r][v], clip) : acc[r][v]);
}

/* The numbers of rows and vectors must be constants for the sums to stay in registers. */
#define CASE(n, call) case n: { enum { R = n }; call; break; }
#define FOR_ROWS(mr, call)                                                                  \
    switch (mr) {                                                                           \
        CASE(1, call) CASE(2, call) CASE(3, call) CASE(4, call) CASE(5, call) CASE(6, call) \
    }

/* All units of one step: cells move on, m receives σ(o) tanh(c). The input products are those of
 * the rows index[0], index[1] …, or of the rows 0, 1 … if there is no index. */
static void cells(const lstm_layer *layer, const lstm_job *job, const float *gates,
                  const int64_t *index, int64_t num_rows, float *m) {
    const int64_t width = GATES * layer->dim;
    const int block = block_size(num_rows);
    for (int64_t unit = 0; unit < layer->dim; unit += VL) {
        const float *w = layer->recurrent + unit * GATES * layer->output_dim;
        for (int64_t b = 0; b < num_rows; b += block) {
            int mr = num_rows - b < block ? (int)(num_rows - b) : block;
            cell_rows rows = {.h = job->h + (job->first + b) * layer->output_dim,
                              .c = job->c + (job->first + b) * layer->dim + unit,
                              .m = m + b * layer->dim + unit};
            for (int r = 0; r < mr; r++)
                rows.gates[r] = gates + (index ? index[b + r] : b + r) * width + unit * GATES;
            FOR_ROWS(mr, cell_block(R, layer, &rows, w))
        }
    }
}

/* A panel of columns of a few rows: out = start + x W, where start is the bias or the sums so far. */
INLINE void linear_block(int mr, const float *x, int64_t ldx, const float *start, int64_t lds,
                         const float *w, int64_t depth, float *out, int64_t ldo) {
    vec acc[MR][NV];
#pragma GCC unroll 8
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++) acc[r][v] = load(start + r * lds + v * VL);
    multiply(mr, NV, acc, x, ldx, 1, w, depth);
#pragma GCC unroll 8
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++) store(out + r * ldo + v * VL, acc[r][v]);
}

/* The columns first … end, whole panels, of out = bias + x W for a few rows; W is
 * [K blocks][panels][depth][PANEL]. */
static void linear_rows(const linear_layer *layer, const float *x, int64_t num_rows, int64_t first,
                        int64_t end, float *out) {
    const int64_t width = layer->output_dim, dim = layer->input_dim;
    const int block = block_size(num_rows);
    for (int64_t k = 0; k < dim; k += K_BLOCK) {
        int64_t depth = dim - k < K_BLOCK ? dim - k : K_BLOCK;
        const float *w = layer->weight + k * width + first * depth;
        for (int64_t column = first; column < end; column += PANEL, w += depth * PANEL)
            for (int64_t b = 0; b < num_rows; b += block) {
                int mr = num_rows - b < block ? (int)(num_rows - b) : block;
                float *sums = out + b * width + column;
                const float *start = k ? sums : layer->bias + column;
                FOR_ROWS(mr, linear_block(R, x + b * dim + k, dim, start, k ? width : 0, w, depth,
                                          sums, width))
            }
    }
}

void SUFFIX(linear)(const linear_layer *layer, const float *x, int64_t num_rows, int64_t first,
                    int64_t end, float *out) {
    for (int64_t row = 0; row < num_rows; row += ROWS_TOGETHER) {
        int64_t n = num_rows - row < ROWS_TOGETHER ? num_rows - row : ROWS_TOGETHER;
        linear_rows(layer, x + row * layer->input_dim, n, first, end,
                    out + row * layer->output_dim);
    }
}

/* x = g relu(t) + (1 - g) x with g = σ(c), where each row of the products holds t, then c. */
void SUFFIX(highway)(int64_t num_rows, int64_t dim, const float *products, float *x) {
    const vec one = all(1.0f);
    for (int64_t row = 0; row < num_rows; row++, products += 2 * dim, x += dim)
        for (int64_t j = 0; j < dim; j += VL) {
            int64_t n = dim - j;
            vec t = most(load_some(products + j, n), all(0.0f)), before = load_some(x + j, n);
            vec gate = one / (one + exp28(-load_some(products + dim + j, n)));
            store_some(x + j, before + gate * (t - before), n);
        }
}

void SUFFIX(activate)(int64_t n, int is_tanh, float *x) {
    const vec one = all(1.0f);
    for (int64_t j = 0; j < n; j += VL) {
        vec v = load_some(x + j, n - j);
        v = is_tanh ? all(2.0f) / (one + exp28(-2.0f * v)) - one : most(v, all(0.0f));
        store_some(x + j, v, n - j);
    }
}

/* A last panel of fewer vectors, which only odd sizes have: one row and vector at a time. */
static void project_rest(int mr, int num_vectors, const float *m, int64_t ldm, const float *w,
                         int64_t k, float *out, int64_t ldo, int is_first, float clip) {
    for (int r = 0; r < mr; r++)
        for (int v = 0; v < num_vectors; v++) {
            vec sum = is_first ? all(0.0f) : load(out + r * ldo + v * VL);
            for (int64_t i = 0; i < k; i++)
                sum += all(m[r * ldm + i]) * load(w + (i * num_vectors + v) * VL);
            store(out + r * ldo + v * VL, clip > 0 ? clamp(sum, clip) : sum);
        }
}

/* out = x W, or out += x W, of `dim` and `width` columns; W is [K blocks][panels][depth][panel].
 * Blocks of the inner dimension, so that a panel of weights stays in the cache over all rows. */
static void project(const float *w, int64_t dim, int64_t width, const float *x, int64_t num_rows,
                    float *out, int adds, float clip) {
    const int block = block_size(num_rows);
    for (int64_t k = 0; k < dim; k += K_BLOCK) {
        int64_t depth = dim - k < K_BLOCK ? dim - k : K_BLOCK;
        float limit = k + depth == dim ? clip : 0;
        int is_first = !k && !adds;
        for (int64_t column = 0; column < width; column += PANEL) {
            int64_t vectors = (width - column) / VL;
            for (int64_t b = 0; b < num_rows; b += block) {
                int mr = num_rows - b < block ? (int)(num_rows - b) : block;
                const float *xb = x + b * dim + k;
                float *ob = out + b * width + column;
                if (vectors >= NV) {
                    FOR_ROWS(mr, project_block(R, NV, xb, dim, w, depth, ob, width, is_first, limit))
                } else {
                    project_rest(mr, (int)vectors, xb, dim, w, depth, ob, width, is_first, limit);
                }
            }
            w += depth * (vectors < NV ? vectors : NV) * VL;
        }
    }
}

/* One step of the job's sentences, whose first packed row is `out`'s first. */
static void step(const lstm_layer *layer, const lstm_job *job, const float *gates,
                 const int64_t *index, int64_t num_rows, float *m, float *out) {
    if (layer->projection) {
        cells(layer, job, gates, index, num_rows, m);
        project(layer->projection, layer->dim, layer->output_dim, m, num_rows, out, 0,
                layer->proj_clip);
    } else {
        cells(layer, job, gates, index, num_rows, out);
    }
    memcpy(job->h + job->first * layer->output_dim, out,
           (size_t)(num_rows * layer->output_dim) * sizeof(float));
    if (job->adds_input) { /* the residual, which the state does not hold */
        const float *x = job->rows + (out - job->out);
        for (int64_t i = 0; i < num_rows * layer->output_dim; i++) out[i] += x[i];
    }
}

/* The job's sentences that are active at a step. */
INLINE int64_t rows_at(const lstm_job *job, int64_t s) {
    return (job->counts[s] < job->end ? job->counts[s] : job->end) - job->first;
}

void SUFFIX(lstm_run)(const lstm_layer *layer, const lstm_job *job) {
    const int64_t width = layer->output_dim, sentences = job->end - job->first;
    const int64_t limit = sentences > ROWS_TOGETHER ? sentences : ROWS_TOGETHER;
    float *m = job->scratch, *x = m + sentences * layer->dim, *gates = x + limit * width;
    int64_t row = job->first; /* the job's first packed row of the step */
    for (int64_t s = 0; s < job->num_steps && rows_at(job, s) > 0;) {
        if (!job->rows) {
            step(layer, job, job->gates, job->index + row, rows_at(job, s), m,
                 job->out + row * width);
            row += job->counts[s++];
            continue;
        }
        int64_t end = s, total = 0;
        for (int64_t at = row; end < job->num_steps && rows_at(job, end) > 0; end++) {
            int64_t n = rows_at(job, end);
            if (total + n > limit) break;
            memcpy(x + total * width, job->rows + at * width, (size_t)(n * width) * sizeof(float));
            total += n;
            at += job->counts[end];
        }
        linear_rows(&layer->input, x, total, 0, layer->input.output_dim, gates);
        for (int64_t done = 0; s < end; s++) {
            int64_t n = rows_at(job, s);
            step(layer, job, gates + done * GATES * layer->dim, NULL, n, m, job->out + row * width);
            done += n;
            row += job->counts[s];
        }
    }
}

#include "training.c"
#include "product.c"
#include "softmax.c"
