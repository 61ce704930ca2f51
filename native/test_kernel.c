/* The kernel against plain loops in double precision, on buffers of exact size, from several
 * threads at once. Built with the address, undefined-behaviour and thread sanitisers by
 * `make test-native`. The variant under test is compiled in as ISA, VL and NV. */
#include "kernel.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GATES = 4, K_BLOCK = 512, MAX_THREADS = 4 };

void SUFFIX(lstm_run)(const lstm_layer *, const lstm_job *);
void SUFFIX(linear)(const linear_layer *, const float *, int64_t, int64_t, int64_t, float *);
void SUFFIX(highway)(int64_t, int64_t, const float *, float *);
void SUFFIX(activate)(int64_t, int, float *);
void SUFFIX(layer_forward)(const layer_training *, int64_t, int64_t);
void SUFFIX(layer_backward)(const layer_training *, const layer_gradients *, int64_t, int64_t);
void SUFFIX(filters_forward)(const filter_bank *, const int32_t *, int64_t, const int64_t *,
                             float *, int32_t *);
void SUFFIX(filters_backward)(const filter_bank *, const int32_t *, int64_t, const float *,
                              const int32_t *, int64_t, int64_t, float *);
void SUFFIX(multiply_matrices)(const product *);
int64_t SUFFIX(product_panels)(const product *);
int64_t SUFFIX(product_block)(void);
void SUFFIX(softmax_pack)(const softmax_job *, int);
void SUFFIX(softmax_run)(const softmax_job *);
int64_t SUFFIX(softmax_scratch)(const softmax_job *);
void SUFFIX(add_rows)(int64_t, int64_t, const int64_t *, const float *, const float *, float *);

static uint64_t seed = 1;
static int failures = 0;

static double uniform(void) { /* -1 .. 1 */
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (double)(int64_t)(seed >> 11) / (double)(1LL << 52) - 1.0;
}

static int64_t below(int64_t n) { return (int64_t)((uniform() + 1.0) / 2.0 * (double)n) % n; }

static float *floats(int64_t n, double scale) {
    float *p = malloc((size_t)(n > 0 ? n : 1) * sizeof(float));
    for (int64_t i = 0; i < n; i++) p[i] = (float)(scale * uniform());
    return p;
}

static void check(const char *what, const float *got, const double *want, int64_t n) {
    double worst = 0, scale = 1;
    for (int64_t i = 0; i < n; i++) scale = fmax(scale, fabs(want[i]));
    for (int64_t i = 0; i < n; i++) /* what is not a number is wrong too */
        worst = fabs(got[i] - want[i]) <= worst ? worst : fabs(got[i] - want[i]);
    if (!(worst < 2e-5 * scale)) {
        printf("FAIL %s: off by %g\n", what, worst);
        failures++;
    }
}

/* What is computed together has the bits of what is computed one row at a time. */
static void check_bits(const char *what, const float *together, const float *alone, int64_t n) {
    if (!memcmp(together, alone, (size_t)n * sizeof(float))) return;
    printf("%s: rows together and alone differ\n", what);
    failures++;
}

static double sigma(double x) { return 1 / (1 + exp(-x)); }

static double clip(double x, double limit) {
    return limit > 0 ? fmax(-limit, fmin(limit, x)) : x;
}

static void *run_job(void *argument) {
    void **pair = argument;
    SUFFIX(lstm_run)(pair[0], pair[1]);
    return NULL;
}

/* w is [4 dim][P], gate-major; gates are [rows][4 dim], gate-major, of which the kernel wants
 * blocks of VL units. */
static int64_t blocked(int64_t gate, int64_t unit) {
    return (unit / VL) * GATES * VL + gate * VL + unit % VL;
}

/* [output][input] as [K blocks][panels][depth][panel]. */
static float *packed(const float *w, int64_t output, int64_t input) {
    float *b = malloc((size_t)(output * input) * sizeof(float)), *at = b;
    for (int64_t k = 0; k < input; k += K_BLOCK)
        for (int64_t c = 0; c < output; c += NV * VL)
            for (int64_t i = k; i < input && i < k + K_BLOCK; i++)
                for (int64_t j = c; j < output && j < c + NV * VL; j++) *at++ = w[j * input + i];
    return b;
}

/* [gate][unit][input] as [unit block][gate][lane][input]. */
static float *blocked_rows(const float *w, int64_t dim, int64_t width) {
    float *b = malloc((size_t)(GATES * dim * width) * sizeof(float));
    for (int64_t g = 0; g < GATES; g++)
        for (int64_t u = 0; u < dim; u++)
            memcpy(b + blocked(g, u) * width, w + (g * dim + u) * width, (size_t)width * sizeof(float));
    return b;
}

/* The same as [unit block][4 / NV][input][NV][VL]. */
static float *blocked_weights(const float *w, int64_t dim, int64_t width) {
    float *rows = blocked_rows(w, dim, width), *b = malloc((size_t)(GATES * dim * width) * sizeof(float));
    for (int64_t row = 0; row < GATES * dim; row++)
        for (int64_t k = 0; k < width; k++)
            b[row / (NV * VL) * (NV * VL) * width + k * NV * VL + row % (NV * VL)] = rows[row * width + k];
    free(rows);
    return b;
}

static void test_lstm(void) {
    int64_t dim = VL * (1 + below(40)), width = VL * (1 + below(6)), steps = 1 + below(9);
    int has_projection = below(4) > 0;
    if (!has_projection) width = dim;
    int64_t sentences = 1 + below(below(4) ? 20 : 90), num_threads = 1 + below(MAX_THREADS);
    lstm_layer layer = {.dim = dim, .output_dim = width,
                        .cell_clip = below(2) ? 0.4f : 0, .proj_clip = below(2) && has_projection ? 0.2f : 0};
    float *w = floats(GATES * dim * width, 0.3), *p = floats(width * dim, 0.2);
    float *wi = floats(GATES * dim * width, 0.3), *bias = floats(GATES * dim, 1);
    float *wb = blocked_weights(w, dim, width), *wir = blocked_rows(wi, dim, width);
    float *wib = packed(wir, GATES * dim, width);
    free(wir);
    float *pb = packed(p, width, dim);
    layer.input = (linear_layer){width, GATES * dim, wib, bias};
    layer.recurrent = wb;
    layer.projection = has_projection ? pb : NULL;

    int64_t *counts = malloc((size_t)steps * sizeof(int64_t)), rows = 0;
    for (int64_t s = 0; s < steps; s++) {
        counts[s] = s ? 1 + below(counts[s - 1]) : sentences; /* never more than the step before */
        rows += counts[s];
    }
    int use_rows = (int)below(2), adds_input = use_rows && below(2);
    int64_t table_rows = 1 + below(rows);
    int64_t *index = malloc((size_t)rows * sizeof(int64_t));
    for (int64_t i = 0; i < rows; i++) index[i] = below(table_rows);
    float *gates = floats(table_rows * GATES * dim, 2.0), *inputs = floats(rows * width, 1);
    float *h = floats(sentences * width, 0.5), *c = floats(sentences * dim, 0.5);
    float *out = floats(rows * width, 0), *alone = floats(rows * width, 0);
    float *h_alone = floats(sentences * width, 0), *c_alone = floats(sentences * dim, 0);
    memcpy(h_alone, h, (size_t)(sentences * width) * sizeof(float));
    memcpy(c_alone, c, (size_t)(sentences * dim) * sizeof(float));

    double *hd = malloc((size_t)(sentences * width) * sizeof(double));
    double *cd = malloc((size_t)(sentences * dim) * sizeof(double));
    double *od = malloc((size_t)(rows * width) * sizeof(double));
    double *m = malloc((size_t)dim * sizeof(double));
    for (int64_t i = 0; i < sentences * width; i++) hd[i] = h[i];
    for (int64_t i = 0; i < sentences * dim; i++) cd[i] = c[i];
    for (int64_t s = 0, row = 0; s < steps; row += counts[s], s++)
        for (int64_t b = 0; b < counts[s]; b++) {
            const float *g = gates + index[row + b] * GATES * dim, *x = inputs + (row + b) * width;
            for (int64_t u = 0; u < dim; u++) {
                double z[GATES];
                for (int64_t q = 0; q < GATES; q++) {
                    z[q] = use_rows ? bias[blocked(q, u)] : g[blocked(q, u)];
                    for (int64_t k = 0; use_rows && k < width; k++)
                        z[q] += (double)x[k] * wi[(q * dim + u) * width + k];
                    for (int64_t k = 0; k < width; k++)
                        z[q] += hd[b * width + k] * w[(q * dim + u) * width + k];
                }
                double cell = sigma(z[1]) * cd[b * dim + u] + sigma(z[0]) * tanh(z[2]);
                cd[b * dim + u] = clip(cell, layer.cell_clip);
                m[u] = sigma(z[3]) * tanh(cd[b * dim + u]);
            }
            for (int64_t j = 0; j < width; j++) {
                double sum = has_projection ? 0 : m[j];
                for (int64_t u = 0; has_projection && u < dim; u++) sum += m[u] * p[j * dim + u];
                hd[b * width + j] = clip(sum, layer.proj_clip);
                od[(row + b) * width + j] = hd[b * width + j] + (adds_input ? x[j] : 0);
            }
        }

    lstm_job jobs[MAX_THREADS];
    void *arguments[MAX_THREADS][2];
    pthread_t threads[MAX_THREADS];
    for (int64_t t = 0; t < num_threads; t++) {
        int64_t first = sentences * t / num_threads, end = sentences * (t + 1) / num_threads;
        jobs[t] = (lstm_job){use_rows ? inputs : NULL, gates, index, counts, steps, first, end,
                             adds_input, h, c, out, NULL};
        jobs[t].scratch = floats(lstm_scratch_size(&layer, &jobs[t]), 0);
        arguments[t][0] = &layer;
        arguments[t][1] = &jobs[t];
        pthread_create(&threads[t], NULL, run_job, arguments[t]);
    }
    for (int64_t t = 0; t < num_threads; t++) {
        pthread_join(threads[t], NULL);
        free(jobs[t].scratch);
    }
    check("lstm out", out, od, rows * width);
    check("lstm h", h, hd, sentences * width);
    check("lstm c", c, cd, sentences * dim);
    for (int64_t b = 0; b < sentences; b++) {
        lstm_job job = {use_rows ? inputs : NULL, gates, index, counts, steps, b, b + 1,
                        adds_input, h_alone, c_alone, alone, NULL};
        job.scratch = floats(lstm_scratch_size(&layer, &job), 0);
        SUFFIX(lstm_run)(&layer, &job);
        free(job.scratch);
    }
    check_bits("lstm out", out, alone, rows * width);
    check_bits("lstm h", h, h_alone, sentences * width);
    check_bits("lstm c", c, c_alone, sentences * dim);
    free(alone); free(h_alone); free(c_alone);
    free(w); free(p); free(wi); free(bias); free(inputs); free(wb); free(wib); free(pb); free(counts); free(index); free(gates); free(h); free(c);
    free(out); free(hd); free(cd); free(od); free(m);
}

static void test_linear(void) {
    int64_t input = 1 + below(1200), output = NV * VL * (1 + below(5)), rows = 1 + below(80);
    float *w = floats(output * input, 0.1), *bias = floats(output, 1), *x = floats(rows * input, 1);
    float *wb = packed(w, output, input), *out = floats(rows * output, 0);
    double *want = malloc((size_t)(rows * output) * sizeof(double));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < output; j++) {
            double sum = bias[j];
            for (int64_t i = 0; i < input; i++) sum += (double)x[r * input + i] * w[j * input + i];
            want[r * output + j] = sum;
        }
    int64_t cut = NV * VL * below(output / (NV * VL) + 1);
    SUFFIX(linear)(&(linear_layer){input, output, wb, bias}, x, rows, 0, cut, out);
    SUFFIX(linear)(&(linear_layer){input, output, wb, bias}, x, rows, cut, output, out);
    check("linear", out, want, rows * output);
    float *alone = floats(rows * output, 0);
    for (int64_t r = 0; r < rows; r++)
        SUFFIX(linear)(&(linear_layer){input, output, wb, bias}, x + r * input, 1, 0, output,
                       alone + r * output);
    check_bits("linear", out, alone, rows * output);
    free(alone);
    free(w); free(bias); free(x); free(wb); free(out); free(want);
}

static void test_highway(void) {
    int64_t rows = 1 + below(5), dim = 1 + below(70), n = rows * dim;
    int is_tanh = (int)below(2);
    float *products = floats(2 * n, 3), *x = floats(n, 1), *y = floats(n, 3);
    double *want = malloc((size_t)n * sizeof(double)), *active = malloc((size_t)n * sizeof(double));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < dim; j++) {
            const float *p = products + 2 * r * dim;
            double gate = sigma(p[dim + j]);
            want[r * dim + j] = gate * fmax(p[j], 0) + (1 - gate) * x[r * dim + j];
        }
    for (int64_t i = 0; i < n; i++) active[i] = is_tanh ? tanh(y[i]) : fmax(y[i], 0);
    SUFFIX(highway)(rows, dim, products, x);
    SUFFIX(activate)(n, is_tanh, y);
    check("highway", x, want, n);
    check("activation", y, active, n);
    free(products); free(x); free(y); free(want); free(active);
}

/* A layer in training: weights as nn.ProjectedLstm has them, [gate][unit][input] and
 * [output][unit], and input products [rows][gate][unit]. */
typedef struct {
    layer_training run;
    const float *recurrent, *projection, *weight; /* the loss is the sum of weight * h */
    double *h, *c, *out;                          /* states; all outputs */
    double nearest;                               /* distance of any value from its clip */
} training_case;

static double near(training_case *t, double x, double limit) {
    if (limit > 0) t->nearest = fmin(t->nearest, fabs(fabs(x) - limit));
    return clip(x, limit);
}

/* What some rows add to the loss, by plain loops; `extra` is added to the outputs before they are
 * clipped. */
static double training_loss(training_case *t, const double *z, const double *extra, int64_t first,
                            int64_t end) {
    const int64_t dim = t->run.dim, width = t->run.output_dim, *counts = t->run.counts;
    double loss = 0, *m = malloc((size_t)dim * sizeof(double));
    t->nearest = INFINITY;
    for (int64_t b = first; b < end; b++) {
        double *h = t->h + b * width, *c = t->c + b * dim;
        for (int64_t i = 0; i < width; i++) h[i] = t->run.h[b * width + i];
        for (int64_t u = 0; u < dim; u++) c[u] = t->run.c[b * dim + u];
        for (int64_t s = 0, row = b; s < t->run.num_steps && b < counts[s]; row += counts[s++]) {
            for (int64_t u = 0; u < dim; u++) {
                double sum[GATES];
                for (int64_t q = 0; q < GATES; q++) {
                    sum[q] = z[(row * GATES + q) * dim + u];
                    for (int64_t k = 0; k < width; k++)
                        sum[q] += h[k] * t->recurrent[(q * dim + u) * width + k];
                }
                if (t->run.is_gru) {
                    double n = tanh(sum[2] + sigma(sum[0]) * sum[3]), update = sigma(sum[1]);
                    m[u] = (1 - update) * n + update * h[u];
                    continue;
                }
                c[u] = near(t, sigma(sum[1]) * c[u] + sigma(sum[0]) * tanh(sum[2]), t->run.cell_clip);
                m[u] = sigma(sum[3]) * tanh(c[u]);
            }
            for (int64_t j = 0; j < width; j++) {
                double sum = (t->run.projection ? 0 : m[j]) + extra[row * width + j];
                for (int64_t u = 0; t->run.projection && u < dim; u++)
                    sum += m[u] * t->projection[j * dim + u];
                h[j] = t->out[row * width + j] = t->run.raw ? near(t, sum, t->run.proj_clip) : sum;
                loss += h[j] * t->weight[row * width + j];
            }
        }
    }
    free(m);
    return loss;
}

/* dL/dx by central differences; x is one of the numbers of a row behind z or extra. */
static double slope(training_case *t, const double *z, const double *extra, int64_t row, double *x) {
    int64_t b = row;
    for (const int64_t *count = t->run.counts; b >= *count; count++) b -= *count;
    const double e = 1e-6, keep = *x;
    *x = keep + e;
    double up = training_loss(t, z, extra, b, b + 1);
    *x = keep - e;
    double down = training_loss(t, z, extra, b, b + 1);
    *x = keep;
    return (up - down) / (2 * e);
}

typedef struct {
    const layer_training *run;
    layer_gradients grads;
    int64_t first, end;
    int is_backward;
} training_part;

static void *run_part(void *argument) {
    const training_part *part = argument;
    if (part->is_backward) SUFFIX(layer_backward)(part->run, &part->grads, part->first, part->end);
    else SUFFIX(layer_forward)(part->run, part->first, part->end);
    return NULL;
}

static void run_parts(training_part *parts, int64_t number, int is_backward) {
    pthread_t threads[MAX_THREADS];
    for (int64_t i = 0; i < number; i++) {
        parts[i].is_backward = is_backward;
        pthread_create(&threads[i], NULL, run_part, &parts[i]);
    }
    for (int64_t i = 0; i < number; i++) pthread_join(threads[i], NULL);
}

/* The gradients that the kernel left against slopes at some places of each kind. */
static void check_slopes(training_case *t, double *z, double *extra, const float *grad_h) {
    enum { PLACES = 6 };
    const int64_t dim = t->run.dim, width = t->run.output_dim;
    int64_t n = 0;
    for (int64_t s = 0; s < t->run.num_steps; s++) n += t->run.counts[s];
    float got[PLACES];
    double want[PLACES];
    for (int64_t i = 0; i < PLACES; i++) {
        int64_t row = below(n), gate = i % GATES, unit = below(dim);
        got[i] = t->run.gates[row * GATES * dim + blocked(gate, unit)];
        want[i] = slope(t, z, extra, row, &z[(row * GATES + gate) * dim + unit]);
    }
    check("gradient of the gates", got, want, PLACES);
    if (t->run.is_gru) return; /* its outputs are also its cells, whose gradients are apart */
    for (int64_t i = 0; i < PLACES; i++) {
        int64_t at = below(n * width);
        got[i] = grad_h[at];
        want[i] = slope(t, z, extra, at / width, &extra[at]);
    }
    check("gradient of the outputs", got, want, PLACES);
}

static void test_training(void) {
    int64_t dim = NV * VL * (1 + below(3)), width = VL * (1 + below(4)), steps = 1 + below(4);
    int is_gru = below(3) == 0, has_projection = !is_gru && below(4) > 0;
    int has_clip = has_projection && below(2);
    if (!has_projection) width = dim;
    if (below(40) == 0) dim = has_projection ? K_BLOCK + NV * VL : dim;
    int64_t rows = 1 + below(below(4) ? 5 : 15), n = 0, num_parts = 1 + below(MAX_THREADS);
    int64_t counts[4];
    for (int64_t s = 0; s < steps; n += counts[s++])
        counts[s] = s ? 1 + below(counts[s - 1]) : rows;
    float *w = floats(GATES * dim * width, 0.2), *p = floats(width * dim, 0.2);
    float *wb = blocked_weights(w, dim, width), *wr = blocked_rows(w, dim, width);
    float *pb = packed(p, width, dim);
    float *back = floats(GATES * dim * width, 0), *pp = floats(width * dim, 0);
    for (int64_t i = 0; i < GATES * dim; i++)
        for (int64_t k = 0; k < width; k++) back[k * GATES * dim + i] = wr[i * width + k];
    float *rb = packed(back, width, GATES * dim);
    for (int64_t u = 0; u < dim; u++)
        for (int64_t k = 0; k < width; k++)
            pp[u / (NV * VL) * (NV * VL) * width + k * NV * VL + u % (NV * VL)] = p[k * dim + u];
    float *c = floats((rows + n) * dim, 0.6), *h = floats((rows + n) * width, 0.5);
    float *m = floats(n * dim, 0), *raw = floats(n * width, 0), *gates = floats(n * GATES * dim, 2);
    float *weight = floats(n * width, 1), *grad_h = floats(n * width, 0);
    float *grad_c = floats(rows * dim, 0), *grad_bias = floats(num_parts * GATES * dim, 0);
    double *z = malloc((size_t)(n * GATES * dim) * sizeof(double));
    double *extra = calloc((size_t)(n * width), sizeof(double));
    for (int64_t row = 0; row < n; row++)
        for (int64_t q = 0; q < GATES; q++)
            for (int64_t u = 0; u < dim; u++)
                z[(row * GATES + q) * dim + u] = gates[row * GATES * dim + blocked(q, u)];
    training_case t = {
        .run = {steps, rows, dim, width, counts, wb, has_projection ? pb : NULL, rb,
                has_projection ? pp : NULL, below(2) && !is_gru ? 0.4f : 0, 0.3f, gates,
                is_gru ? h : c, has_projection ? m : h + rows * width, has_clip ? raw : NULL, h,
                is_gru},
        .recurrent = w, .projection = p, .weight = weight,
        .h = malloc((size_t)(rows * width) * sizeof(double)),
        .c = malloc((size_t)(rows * dim) * sizeof(double)),
        .out = malloc((size_t)(n * width) * sizeof(double))};
    training_part parts[MAX_THREADS];
    for (int64_t i = 0; i < num_parts; i++)
        parts[i] = (training_part){&t.run, {grad_h, grad_c, grad_bias + i * GATES * dim},
                                   rows * i / num_parts, rows * (i + 1) / num_parts, 0};
    training_loss(&t, z, extra, 0, rows);
    double nearest = t.nearest;
    run_parts(parts, num_parts, 0);
    check("training outputs", h + rows * width, t.out, n * width);
    memcpy(grad_h, weight, (size_t)(n * width) * sizeof(float));
    run_parts(parts, num_parts, 1);
    if (nearest > 2e-5) check_slopes(&t, z, extra, grad_h); /* at the clip there is no slope */
    double *sums = calloc((size_t)(GATES * dim), sizeof(double));
    for (int64_t i = 0; i < n * GATES * dim; i++) sums[i % (GATES * dim)] += gates[i];
    for (int64_t i = GATES * dim; i < num_parts * GATES * dim; i++)
        grad_bias[i % (GATES * dim)] += grad_bias[i];
    check("gradient of the bias", grad_bias, sums, GATES * dim);
    free(w); free(p); free(wb); free(wr); free(pb); free(back); free(pp); free(rb); free(c); free(h);
    free(m); free(raw); free(gates); free(weight); free(grad_h); free(grad_c); free(grad_bias);
    free(z); free(extra); free(t.h); free(t.c); free(t.out); free(sums);
}

typedef struct {
    const filter_bank *bank;
    const int32_t *ids, *places;
    const float *grad;
    int64_t words, first, end;
    float *grad_table;
} filters_part;

static void *run_filters(void *argument) {
    const filters_part *a = argument;
    SUFFIX(filters_backward)(a->bank, a->ids, a->words, a->grad, a->places, a->first, a->end,
                             a->grad_table);
    return NULL;
}

static void test_filters(void) {
    int64_t width = 1 + below(7), filters = 1 + below(70), characters = 2 + below(60);
    int64_t limit = 7 + below(44), words = 1 + below(9), stride = filters + below(5);
    int64_t size = width * characters * filters;
    float *table = floats(size, 1), *bias = floats(filters, 1), *out = floats(words * stride, 0);
    float *grad = floats(words * stride, 1), *grad_table = floats(size, 0);
    int32_t *ids = malloc((size_t)(words * limit) * sizeof(int32_t));
    int32_t *places = calloc((size_t)(words * stride), sizeof(int32_t));
    int64_t *lengths = malloc((size_t)words * sizeof(int64_t));
    double *want = calloc((size_t)(words * stride), sizeof(double));
    double *want_table = calloc((size_t)size, sizeof(double));
    for (int64_t w = 0; w < words; w++) {
        lengths[w] = below(limit);
        for (int64_t i = 0; i < limit; i++)
            ids[w * limit + i] = i < lengths[w] ? (int32_t)below(characters) : 0;
    }
    filter_bank bank = {width, filters, characters, limit, stride, table, bias};
    SUFFIX(filters_forward)(&bank, ids, words, lengths, out, places);
    float *alone = floats(words * stride, 0);
    SUFFIX(filters_forward)(&bank, ids, words, lengths, alone, NULL);
    for (int64_t w = 0; w < words; w++)
        check_bits("filters without places", out + w * stride, alone + w * stride, filters);
    free(alone);
    for (int64_t w = 0; w < words; w++)
        for (int64_t f = 0; f < filters; f++) {
            double best = -INFINITY, there = 0;
            for (int64_t at = 0; at + width <= limit; at++) {
                double sum = bias[f];
                for (int64_t k = 0; k < width; k++)
                    sum += table[(k * characters + ids[w * limit + at + k]) * filters + f];
                best = fmax(best, sum);
                if (at == places[w * stride + f]) there = sum;
            }
            want[w * stride + f] = best;
            if (!(fabs(there - best) < 2e-5)) {
                printf("FAIL filters: %g at the place of the maximum %g\n", there, best);
                failures++;
            }
            for (int64_t k = 0; k < width; k++) {
                int32_t id = ids[w * limit + places[w * stride + f] + k];
                want_table[(k * characters + id) * filters + f] += grad[w * stride + f];
            }
        }
    check("filters", out, want, words * stride);
    int64_t cut = below(filters + 1);
    filters_part parts[2] = {{&bank, ids, places, grad, words, 0, cut, grad_table},
                             {&bank, ids, places, grad, words, cut, filters, grad_table}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, run_filters, &parts[i]);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    check("gradient of the filters", grad_table, want_table, size);
    free(table); free(bias); free(out); free(grad); free(grad_table); free(ids); free(places);
    free(lengths); free(want); free(want_table);
}

static void test_product(void) {
    int64_t rows = 1 + below(150), columns = 1 + below(100), depth = 1 + below(700);
    int is_a_transposed = (int)below(2), is_b_transposed = (int)below(2), start = (int)below(3);
    float *a = floats(rows * depth, 1), *b = floats(depth * columns, 0.1);
    float *bias = floats(columns, 1), *out = floats(rows * columns, 1);
    product p = {rows, columns, depth, a, is_a_transposed ? 1 : depth, is_a_transposed ? rows : 1,
                 b, is_b_transposed ? 1 : columns, is_b_transposed ? depth : 1,
                 start == 1 ? bias : NULL, start == 2, out, columns, NULL, 0, NULL};
    double *want = malloc((size_t)(rows * columns) * sizeof(double));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            double sum = start == 1 ? bias[c] : start == 2 ? out[r * columns + c] : 0;
            for (int64_t i = 0; i < depth; i++)
                sum += (double)a[r * p.a_row + i * p.a_depth] * b[i * p.b_depth + c * p.b_column];
            want[r * columns + c] = sum;
        }
    p.panels = floats(SUFFIX(product_panels)(&p), 0);
    p.block = floats(SUFFIX(product_block)(), 0);
    SUFFIX(multiply_matrices)(&p);
    check("product", out, want, rows * columns);
    free(a); free(b); free(bias); free(out); free(want); free(p.panels); free(p.block);
}

static void *run_softmax(void *job) {
    SUFFIX(softmax_run)(job);
    return NULL;
}

/* Probabilities and gradients of one row by their definition; returns the loss. */
static double softmax_row(const softmax_job *job, int64_t row, double *grad_h, double *grad_samples,
                          double *grad_offsets, double *grad_true) {
    const int64_t dim = job->dim, n = job->num_samples, word = job->targets[row];
    const float *h = job->h + row * dim;
    double *logits = malloc((size_t)(n + 1) * sizeof(double)), total = 0;
    for (int64_t s = 0; s <= n; s++) {
        const float *w = s < n ? job->samples + s * dim : job->weight + word * dim;
        logits[s] = s < n ? job->sample_offsets[s] : job->offsets[word];
        for (int64_t i = 0; i < dim; i++) logits[s] += (double)h[i] * w[i];
        if (s != job->hits[row]) total += exp(logits[s]);
    }
    for (int64_t i = 0; i < dim; i++) grad_h[i] = 0;
    for (int64_t s = 0; s <= n; s++) {
        const float *w = s < n ? job->samples + s * dim : job->weight + word * dim;
        double p = s == job->hits[row] ? 0 : exp(logits[s]) / total - (s == n);
        for (int64_t i = 0; i < dim; i++) grad_h[i] += p * w[i];
        for (int64_t i = 0; s < n && i < dim; i++) grad_samples[s * dim + i] += p * h[i];
        if (s < n) grad_offsets[s] += p;
        else *grad_true = p;
    }
    double loss = log(total) - logits[n];
    free(logits);
    return loss;
}

static void test_softmax(void) {
    int64_t rows = 1 + below(300), dim = 1 + below(70), n = 1 + below(150), words = 1 + below(90);
    float *h = floats(rows * dim, 1), *weight = floats(words * dim, 1), *offsets = floats(words, 3);
    float *samples = floats(n * dim, 1), *sample_offsets = floats(n, 3);
    int64_t panels = NV * VL, width = (dim + panels - 1) / panels * panels;
    float *to_logits = floats(dim * ((n + panels - 1) / panels * panels), 0);
    float *from_logits = floats(n * width, 0), *numbers = floats(4 * rows, 0);
    float *grad_h = floats(rows * dim, 0), *grad_samples = floats(2 * n * dim, 0);
    float *grad_offsets = floats(2 * n, 0), *loss = floats(rows, 0), *out = floats(words * dim, 0);
    int64_t *targets = malloc((size_t)rows * sizeof(int64_t)), *hits = malloc((size_t)rows * sizeof(int64_t));
    for (int64_t r = 0; r < rows; r++) {
        targets[r] = below(words);
        hits[r] = below(3) ? -1 : below(n);
    }
    softmax_job all = {rows, dim, n, h, targets, hits, weight, offsets, samples, sample_offsets,
                       to_logits, from_logits, numbers, numbers + rows, numbers + 2 * rows,
                       numbers + 3 * rows, grad_h, grad_samples, grad_offsets, NULL};
    double *want_h = malloc((size_t)(rows * dim) * sizeof(double)), *want_true = malloc((size_t)rows * sizeof(double));
    double *want_samples = calloc((size_t)(n * dim), sizeof(double)), *want_offsets = calloc((size_t)n, sizeof(double));
    double *want_loss = malloc((size_t)rows * sizeof(double)), *want_out = calloc((size_t)(words * dim), sizeof(double));
    for (int64_t r = 0; r < rows; r++) {
        want_loss[r] = softmax_row(&all, r, want_h + r * dim, want_samples, want_offsets, want_true + r);
        for (int64_t i = 0; i < dim; i++)
            want_out[targets[r] * dim + i] += want_true[r] * h[r * dim + i];
    }
    SUFFIX(softmax_pack)(&all, 0);
    SUFFIX(softmax_pack)(&all, 1);
    int64_t cut = below(rows + 1); /* two threads, each with some rows and sums of its own */
    softmax_job jobs[2] = {all, all};
    jobs[0].num_rows = cut;
    jobs[1].num_rows = rows - cut;
    jobs[1].h += cut * dim, jobs[1].targets += cut, jobs[1].hits += cut, jobs[1].largest += cut;
    jobs[1].total += cut, jobs[1].truth += cut, jobs[1].grad_true += cut;
    jobs[1].grad_h += cut * dim, jobs[1].grad_samples += n * dim, jobs[1].grad_offsets += n;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        jobs[i].scratch = floats(SUFFIX(softmax_scratch)(&all), 0);
        pthread_create(&threads[i], NULL, run_softmax, &jobs[i]);
    }
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    for (int64_t r = 0; r < rows; r++)
        loss[r] = (float)(all.largest[r] + log(all.total[r]) - all.truth[r]);
    for (int64_t i = 0; i < n * dim; i++) grad_samples[i] += grad_samples[n * dim + i];
    for (int64_t i = 0; i < n; i++) grad_offsets[i] += grad_offsets[n + i];
    SUFFIX(add_rows)(rows, dim, targets, all.grad_true, h, out);
    check("softmax", loss, want_loss, rows);
    check("softmax, dh", grad_h, want_h, rows * dim);
    check("softmax, samples", grad_samples, want_samples, n * dim);
    check("softmax, offsets", grad_offsets, want_offsets, n);
    check("softmax, targets", all.grad_true, want_true, rows);
    check("added rows", out, want_out, words * dim);
    free(h); free(weight); free(offsets); free(samples); free(sample_offsets); free(to_logits);
    free(from_logits); free(numbers); free(grad_h); free(grad_samples); free(grad_offsets);
    free(loss); free(out); free(targets); free(hits); free(want_h); free(want_true);
    free(want_samples); free(want_offsets); free(want_loss); free(want_out);
    free(jobs[0].scratch); free(jobs[1].scratch);
}

int main(void) {
    enum { ROUNDS = 200 };
    for (int i = 0; i < ROUNDS; i++) {
        test_lstm();
        test_linear();
        test_highway();
        test_training();
        test_filters();
        test_product();
        test_softmax();
    }
    printf("%d vectors of %d floats: %d passed, %d failed\n", NV, VL, 8 * ROUNDS - failures, failures);
    return failures > 0;
}
