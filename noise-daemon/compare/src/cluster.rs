//! Clusters of vectors: OPTICS, the silhouette of a labelling, principal components for pictures.
