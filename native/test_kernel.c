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
void SUFFIX(char_cnn)(const char_filters *, const int64_t *, int64_t, const int64_t *, float *);
void SUFFIX(gates_forward)(const gates_shape *, float *, const float *, float *, float *);
void SUFFIX(gates_backward)(const gates_shape *, const float *, const float *, const float *,
                            const float *, float *, float *);

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

static float *copy(const float *source, int64_t n) {
    float *p = malloc((size_t)n * sizeof(float));
    memcpy(p, source, (size_t)n * sizeof(float));
    return p;
}

static void check(const char *what, const float *got, const double *want, int64_t n) {
    double worst = 0;
    for (int64_t i = 0; i < n; i++) worst = fmax(worst, fabs(got[i] - want[i]));
    if (!(worst < 2e-5)) {
        printf("FAIL %s: off by %g\n", what, worst);
        failures++;
    }
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
    float *out = floats(rows * width, 0);

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
    free(w); free(p); free(wi); free(bias); free(inputs); free(wb); free(wib); free(pb); free(counts); free(index); free(gates); free(h); free(c);
    free(out); free(hd); free(cd); free(od); free(m);
}

static void test_char_cnn(void) {
    int64_t width = 1 + below(7), filters = 1 + below(70), characters = 2 + below(60), limit = 7 + below(44);
    int64_t words = 1 + below(9), padded = (filters + VL - 1) / VL * VL, stride = filters + below(5);
    float *table = floats(width * characters * padded, 1), *bias = floats(padded, 1);
    float *out = floats(words * stride, 0);
    int64_t *ids = malloc((size_t)(words * limit) * sizeof(int64_t));
    int64_t *lengths = malloc((size_t)words * sizeof(int64_t));
    double *want = calloc((size_t)(words * stride), sizeof(double));
    for (int64_t w = 0; w < words; w++) {
        lengths[w] = below(limit);
        for (int64_t i = 0; i < limit; i++) ids[w * limit + i] = i < lengths[w] ? below(characters) : 0;
        for (int64_t f = 0; f < filters; f++) {
            double best = -INFINITY;
            for (int64_t at = 0; at + width <= limit; at++) {
                double sum = bias[f];
                for (int64_t k = 0; k < width; k++)
                    sum += table[(k * characters + ids[w * limit + at + k]) * padded + f];
                best = fmax(best, sum);
            }
            want[w * stride + f] = best;
        }
    }
    char_filters bank = {width, filters, padded, characters, limit, stride, table, bias};
    SUFFIX(char_cnn)(&bank, ids, words, lengths, out);
    check("char cnn", out, want, words * stride);
    free(table); free(bias); free(out); free(ids); free(lengths); free(want);
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

/* The backward pass against central differences of a double-precision forward pass. */
static double loss(const double *z, double before, double limit, double a, double b) {
    double c = clip(sigma(z[1]) * before + sigma(z[0]) * tanh(z[2]), limit);
    return a * sigma(z[3]) * tanh(c) + b * c;
}

static void test_gates(void) {
    int64_t rows = 1 + below(4), dim = 1 + below(50), n = rows * dim;
    gates_shape shape = {rows, dim, below(2) ? 0.6f : 0};
    float *pre = floats(n * GATES, 2), *act = copy(pre, n * GATES), *before = floats(n, 0.5);
    float *c = floats(n, 0), *m = floats(n, 0), *grad_m = floats(n, 1), *grad_c = floats(n, 1);
    float *given = copy(grad_c, n), *grad = floats(n * GATES, 0);
    for (int64_t i = 0; i < n; i++) { /* at the clip itself there is no derivative to compare with */
        const float *z = pre + i / dim * GATES * dim + i % dim;
        double cell = sigma(z[dim]) * before[i] + sigma(z[0]) * tanh(z[2 * dim]);
        if (shape.cell_clip > 0 && fabs(fabs(cell) - shape.cell_clip) < 1e-3) before[i] = 0;
    }
    SUFFIX(gates_forward)(&shape, act, before, c, m);
    SUFFIX(gates_backward)(&shape, act, before, c, grad_m, grad_c, grad);
    double *want = calloc((size_t)(n * (GATES + 3)), sizeof(double));
    double *want_c = want + n * GATES, *want_m = want_c + n, *want_before = want_m + n;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < dim; j++) {
            double z[GATES], e = 1e-5;
            int64_t i = r * dim + j;
            for (int q = 0; q < GATES; q++) z[q] = pre[(r * GATES + q) * dim + j];
            want_c[i] = clip(sigma(z[1]) * before[i] + sigma(z[0]) * tanh(z[2]), shape.cell_clip);
            want_m[i] = sigma(z[3]) * tanh(want_c[i]);
            for (int q = 0; q < GATES; q++) {
                double keep = z[q], up, down;
                z[q] = keep + e, up = loss(z, before[i], shape.cell_clip, grad_m[i], given[i]);
                z[q] = keep - e, down = loss(z, before[i], shape.cell_clip, grad_m[i], given[i]);
                z[q] = keep;
                want[(r * GATES + q) * dim + j] = (up - down) / (2 * e);
            }
            want_before[i] = (loss(z, before[i] + e, shape.cell_clip, grad_m[i], given[i]) -
                              loss(z, before[i] - e, shape.cell_clip, grad_m[i], given[i])) / (2 * e);
        }
    check("gates c", c, want_c, n);
    check("gates m", m, want_m, n);
    check("gates gradient", grad, want, n * GATES);
    check("gates gradient of c", grad_c, want_before, n);
    free(pre); free(act); free(before); free(c); free(m); free(grad_m); free(grad_c); free(given);
    free(grad); free(want);
}

int main(void) {
    enum { ROUNDS = 200 };
    for (int i = 0; i < ROUNDS; i++) {
        test_lstm();
        test_linear();
        test_char_cnn();
        test_highway();
        test_gates();
    }
    printf("%d vectors of %d floats: %d passed, %d failed\n", NV, VL, 5 * ROUNDS - failures, failures);
    return failures > 0;
}
