/* The plain C interface that Python loads: each call names the instruction set that it wants. */
#include "kernel.h"

#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

enum { PORTABLE, AVX2, AVX512 };

/* Floats in a vector of an instruction set; 0 if this machine does not have it. */
EXPORT int64_t elmokit_vector_length(int isa) {
#ifdef ELMOKIT_X86
    __builtin_cpu_init();
    int has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    int has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                     __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                     __builtin_cpu_supports("avx512bw");
    if (isa == AVX512) return has_avx512 ? 16 : 0;
    if (isa == AVX2) return has_avx2 ? 8 : 0;
#endif
    return isa == PORTABLE ? 4 : 0;
}

/* Vectors that are multiplied together, which the layout of the weights depends on. */
EXPORT int64_t elmokit_vectors_together(int isa) { return isa == AVX512 ? 4 : 2; }

#ifdef ELMOKIT_X86
#define CHOOSE(isa, call, ...)                              \
    switch (isa) {                                          \
        case AVX512: call##_avx512(__VA_ARGS__); break;     \
        case AVX2: call##_avx2(__VA_ARGS__); break;         \
        default: call##_portable(__VA_ARGS__);              \
    }
#else
#define CHOOSE(isa, call, ...) (void)isa, call##_portable(__VA_ARGS__)
#endif

EXPORT int64_t elmokit_lstm_scratch_size(int isa, const lstm_layer *layer, const lstm_job *job) {
    (void)isa; /* every function names it */
    return lstm_scratch_size(layer, job);
}

EXPORT void elmokit_lstm_run(int isa, const lstm_layer *layer, const lstm_job *job) {
    CHOOSE(isa, lstm_run, layer, job);
}

EXPORT void elmokit_linear(int isa, const linear_layer *layer, const float *x, int64_t num_rows,
                           int64_t first, int64_t end, float *out) {
    CHOOSE(isa, linear, layer, x, num_rows, first, end, out);
}

EXPORT void elmokit_highway(int isa, int64_t num_rows, int64_t dim, const float *products,
                            float *x) {
    CHOOSE(isa, highway, num_rows, dim, products, x);
}

EXPORT void elmokit_activate(int isa, int64_t n, int is_tanh, float *x) {
    CHOOSE(isa, activate, n, is_tanh, x);
}

EXPORT void elmokit_layer_forward(int isa, const layer_training *run, int64_t first, int64_t end) {
    CHOOSE(isa, layer_forward, run, first, end);
}

EXPORT void elmokit_layer_backward(int isa, const layer_training *run, const layer_gradients *grads,
                                   int64_t first, int64_t end) {
    CHOOSE(isa, layer_backward, run, grads, first, end);
}

EXPORT void elmokit_filters_forward(int isa, const filter_bank *bank, const int32_t *characters,
                                    int64_t num_words, const int64_t *lengths, float *out,
                                    int32_t *places) {
    CHOOSE(isa, filters_forward, bank, characters, num_words, lengths, out, places);
}

EXPORT void elmokit_filters_backward(int isa, const filter_bank *bank, const int32_t *characters,
                                     int64_t num_words, const float *grad, const int32_t *places,
                                     int64_t first, int64_t end, float *grad_table) {
    CHOOSE(isa, filters_backward, bank, characters, num_words, grad, places, first, end,
           grad_table);
}

EXPORT void elmokit_multiply_matrices(int isa, const product *p) {
    CHOOSE(isa, multiply_matrices, p);
}

EXPORT int64_t elmokit_product_panels(int isa, const product *p) {
    int64_t size;
    CHOOSE(isa, size = product_panels, p);
    return size;
}

EXPORT int64_t elmokit_product_block(int isa) {
    int64_t size;
    CHOOSE(isa, size = product_block);
    return size;
}

EXPORT void elmokit_softmax_pack(int isa, const softmax_job *job, int is_back) {
    CHOOSE(isa, softmax_pack, job, is_back);
}

EXPORT void elmokit_softmax_run(int isa, const softmax_job *job) {
    CHOOSE(isa, softmax_run, job);
}

EXPORT int64_t elmokit_softmax_scratch(int isa, const softmax_job *job) {
    int64_t size;
    CHOOSE(isa, size = softmax_scratch, job);
    return size;
}

EXPORT void elmokit_add_rows(int isa, int64_t num_rows, int64_t dim, const int64_t *index,
                             const float *scales, const float *rows, float *out) {
    CHOOSE(isa, add_rows, num_rows, dim, index, scales, rows, out);
}
