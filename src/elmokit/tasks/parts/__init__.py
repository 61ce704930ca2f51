"""What task models are made of: readers, tags, words, embeddings, encoders, a CRF, scores."""
