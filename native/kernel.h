/* Data that the kernel works on; the Python side (elmokit/engine/native.py) has the same structs. */
#ifndef ELMOKIT_KERNEL_H
#define ELMOKIT_KERNEL_H

#include <stdint.h>

/* out = bias + x W; the output is a multiple of the panel. */
typedef struct {
    int64_t input_dim, output_dim;
    const float *weight; /* [K blocks][panels][depth][panel] */
    const float *bias;
} linear_layer;

/* One layer of one direction, its dimensions padded to whole vectors. */
typedef struct {
    int64_t dim, output_dim;
    linear_layer input;      /* to [dim / VL][4 gates][VL] */
    const float *recurrent;  /* [dim / VL][4 / NV][output_dim][NV][VL] */
    const float *projection; /* [K blocks][panels][depth][panel]; null: no projection */
    float cell_clip, proj_clip; /* 0: none */
} lstm_layer;

/* Sentences first..end-1 of a packed batch. The input of the layer is either the packed rows, or
 * for each packed row the number of a row of ready input products plus bias. */
typedef struct {
    const float *rows;     /* [packed rows][output_dim]; null: the index counts */
    const float *gates;    /* [..][4 dim], blocked like the bias */
    const int64_t *index;  /* [packed rows] */
    const int64_t *counts; /* sentences active at each step */
    int64_t num_steps, first, end;
    int64_t adds_input;    /* whether the rows are added to the output (not to the state) */
    float *h, *c;          /* states, [sentences][output_dim] and [sentences][dim]; move on */
    float *out;            /* [packed rows][output_dim] */
    float *scratch;        /* lstm_scratch_size floats */
} lstm_job;

/* Rows whose input products are computed together: enough to make use of each weight that is
 * read, few enough for the products to be in the cache when their step comes. */
enum { ROWS_TOGETHER = 64 };

/* Floats of scratch that a job needs. */
static inline int64_t lstm_scratch_size(const lstm_layer *layer, const lstm_job *job) {
    int64_t sentences = job->end - job->first;
    int64_t rows = sentences > ROWS_TOGETHER ? sentences : ROWS_TOGETHER;
    int64_t products = job->rows ? rows * (layer->output_dim + 4 * layer->dim) : 0;
    return sentences * layer->dim + products;
}

/* One layer of one direction in training, over packed rows: step t takes counts[t] of the sentences,
 * the first ones, never more than the step before. Its dim is padded to whole panels, its output to
 * whole vectors. Forward and backward fill the same buffers, of which a call works on some
 * sentences. A layer of gated recurrent units has no projection and no clip, and c is h. */
typedef struct {
    int64_t num_steps, num_sentences, dim, output_dim;
    const int64_t *counts;        /* [steps] */
    const float *recurrent;       /* as in lstm_layer */
    const float *projection;      /* as in lstm_layer; null: no projection */
    const float *recurrent_back;  /* from gates to output, [K blocks][panels][depth][panel] */
    const float *projection_back; /* from output to dim, [dim / panel][output_dim][panel] */
    float cell_clip, proj_clip;   /* 0: none */
    float *gates; /* [rows][dim / VL][4][VL]: input products, activations, gradients */
    float *c;     /* [sentences + rows][dim]: where they start, then cells before they are clipped */
    float *m;     /* [rows][dim]: σ(o) tanh(c) */
    float *raw;   /* [rows][output_dim]: outputs before they are clipped; null: no clip */
    float *h;     /* [sentences + rows][output_dim]; with no projection, m is h + sentences */
    int64_t is_gru;
} layer_training;

/* What else the backward pass of some sentences needs. */
typedef struct {
    float *grad_h;    /* [rows][output_dim]: dL/dh from outside; then dL/d(unclipped h) */
    float *grad_c;    /* [sentences][dim]: dL/dc after the last step; it moves backwards */
    float *grad_bias; /* [dim / VL][4][VL], zeros */
} layer_gradients;

/* The filters of one width; the words' characters are numbered as in the table. */
typedef struct {
    int64_t width, num_filters, num_characters, max_characters, stride;
    const float *table; /* [width][num_characters][num_filters] */
    const float *bias;  /* [num_filters] */
} filter_bank;

/* out = a b, plus the bias or what `out` holds. The rows of `out` are contiguous; `a` and `b` may
 * be transposed: a[row][i] is a[row * a_row + i * a_depth], b[i][column] likewise. */
typedef struct {
    int64_t num_rows, num_columns, depth;
    const float *a;
    int64_t a_row, a_depth;
    const float *b;
    int64_t b_depth, b_column;
    const float *bias; /* [num_columns]; null: none */
    int64_t adds;      /* whether the product is added to `out` */
    float *out;
    int64_t out_row;
    float *panels;    /* b as [K blocks][panels][depth][panel], product_panels floats */
    int64_t is_packed; /* whether the panels are filled */
    float *block;     /* product_block floats; not needed if a_depth is 1 */
} product;

/* The sampled softmax of some rows and its gradients. Each call has buffers of its own. */
typedef struct {
    int64_t num_rows, dim, num_samples;
    const float *h;         /* [rows][dim] */
    const int64_t *targets; /* [rows] words */
    const int64_t *hits;    /* [rows] the sample that is the row's target, to be left out; or -1 */
    const float *weight;    /* [words][dim] */
    const float *offsets;   /* [words]: the bias less the log of the expected count */
    const float *samples;   /* [samples][dim]: their rows of the weight */
    const float *sample_offsets; /* [samples] */
    float *to_logits, *from_logits; /* the samples as panels of h samples' and of p samples */
    float *largest, *total, *truth; /* [rows]: log Σ exp(logits) is largest + log(total) */
    float *grad_true;               /* [rows]: p(target) - 1 */
    float *grad_h;                  /* [rows][dim] */
    float *grad_samples;            /* [samples][dim] */
    float *grad_offsets;            /* [samples], zeros */
    float *scratch;                 /* softmax_scratch floats */
} softmax_job;

#define DECLARE(isa)                                                                              \
    void lstm_run_##isa(const lstm_layer *, const lstm_job *);                                    \
    void linear_##isa(const linear_layer *, const float *, int64_t, int64_t, int64_t, float *);   \
    void highway_##isa(int64_t, int64_t, const float *, float *);                                 \
    void activate_##isa(int64_t, int, float *);                                                   \
    void layer_forward_##isa(const layer_training *, int64_t, int64_t);                           \
    void layer_backward_##isa(const layer_training *, const layer_gradients *, int64_t, int64_t); \
    void filters_forward_##isa(const filter_bank *, const int32_t *, int64_t, const int64_t *,    \
                               float *, int32_t *);                                               \
    void filters_backward_##isa(const filter_bank *, const int32_t *, int64_t, const float *,     \
                                const int32_t *, int64_t, int64_t, float *);                      \
    void pack_product_##isa(const product *);                                                     \
    void multiply_matrices_##isa(const product *);                                                \
    int64_t product_panels_##isa(const product *);                                                \
    int64_t product_block_##isa(void);                                                            \
    void softmax_pack_##isa(const softmax_job *, int);                                            \
    void softmax_run_##isa(const softmax_job *);                                                  \
    int64_t softmax_scratch_##isa(const softmax_job *);                                           \
    void add_rows_##isa(int64_t, int64_t, const int64_t *, const float *, const float *, float *);

DECLARE(avx512)
DECLARE(avx2)
DECLARE(portable)

#define SUFFIX_(name, isa) name##_##isa
#define SUFFIX__(name, isa) SUFFIX_(name, isa)
#define SUFFIX(name) SUFFIX__(name, ISA)

#endif
