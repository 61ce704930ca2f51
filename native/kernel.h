/* Data that the kernel works on; the Python side (elmokit/engine/native.py) has the same structs. */
#ifndef ELMOKIT_KERNEL_H
#define ELMOKIT_KERNEL_H

#include <stdint.h>

/* One layer of one direction, its dimensions padded to whole vectors. */
typedef struct {
    int64_t dim, output_dim;
    const float *recurrent;  /* [dim / VL][4 / NV][output_dim][NV][VL] */
    const float *projection; /* [K blocks][panels][depth][panel]; null: no projection */
    float cell_clip, proj_clip; /* 0: none */
} lstm_layer;

/* Sentences first..end-1 of a packed batch. */
typedef struct {
    const float *gates;    /* input products plus bias, [rows][4 dim], blocked like the weights */
    const int64_t *index;  /* for each packed row its row of gates; null: the same */
    const int64_t *counts; /* sentences active at each step */
    int64_t num_steps, first, end;
    float *h, *c;          /* states, [sentences][output_dim] and [sentences][dim]; move on */
    float *out;            /* [packed rows][output_dim] */
    float *scratch;        /* (end - first) * dim floats */
} lstm_job;

/* The character responses of the filters of one width. */
typedef struct {
    int64_t width, num_filters, num_padded, num_characters, max_characters, stride;
    const float *table; /* [width][num_characters][num_padded] */
    const float *bias;  /* [num_padded] */
} char_filters;

/* The gates of one training step. */
typedef struct {
    int64_t rows, dim;
    float cell_clip; /* 0: none */
} gates_shape;

#define DECLARE(isa)                                                                              \
    void lstm_run_##isa(const lstm_layer *, const lstm_job *);                                    \
    void char_cnn_##isa(const char_filters *, const int64_t *, int64_t, const int64_t *, float *); \
    void gates_forward_##isa(const gates_shape *, float *, const float *, float *, float *);      \
    void gates_backward_##isa(const gates_shape *, const float *, const float *, const float *,   \
                              const float *, float *, float *);

DECLARE(avx512)
DECLARE(avx2)
DECLARE(portable)

#define SUFFIX_(name, isa) name##_##isa
#define SUFFIX__(name, isa) SUFFIX_(name, isa)
#define SUFFIX(name) SUFFIX__(name, ISA)

#endif
