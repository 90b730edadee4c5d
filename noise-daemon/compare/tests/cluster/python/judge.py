"""What scikit-learn says of sets of points; reads a file of JSON, prints one.

Neighbours come from a k-d tree, whose distances are exact but for the last rounding, and beside it from what
scikit-learn would choose by itself: that may be the expansion of squared distances into products, which has an
error. Numbers that are infinite are null.
"""

import json
import os
import sys
import warnings

# Read on import. Threads would wait for each other longer than they compute, where others use the CPUs.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy
import sklearn
from sklearn.cluster import cluster_optics_dbscan, cluster_optics_xi, compute_optics_graph
from sklearn.decomposition import PCA
from sklearn.metrics import silhouette_samples, silhouette_score

warnings.simplefilter("ignore")
# Most of the time would go there.
sklearn.set_config(assume_finite=True, skip_parameter_validation=True)


def numbers(values):
    return [float(value) if numpy.isfinite(value) else None for value in values]


def graph(points, case, algorithm):
    distance = case["max_distance"]
    return compute_optics_graph(
        points,
        min_samples=case["min_points"],
        max_eps=numpy.inf if distance is None else distance,
        metric="minkowski",
        p=2,
        metric_params=None,
        algorithm=algorithm,
        leaf_size=30,
        n_jobs=None,
    )


def ordering(found):
    order, core, reachability, predecessor = found
    return {
        "order": order.tolist(),
        "core_distance": numbers(core),
        "reachability": numbers(reachability),
        "predecessor": predecessor.tolist(),
    }


def silhouette(points, labels, **metric):
    if not 2 <= len(set(labels)) <= len(labels) - 1:
        return None
    return {
        "mean": float(silhouette_score(points, labels, **metric)),
        "of_each": silhouette_samples(points, labels, **metric).tolist(),
    }


def judge(case):
    points = numpy.array(case["points"]).reshape(-1, case["dimensions"])
    found = graph(points, case, "kd_tree")
    order, core, reachability, predecessor = found
    by_choice = points.shape[1] > 15 or case["min_points"] >= points.shape[0] // 2
    components = PCA(svd_solver="full").fit(points)
    return {
        "tree": ordering(found),
        "brute": ordering(graph(points, case, "auto")) if by_choice else None,
        "xi": [
            cluster_optics_xi(
                reachability=reachability,
                predecessor=predecessor,
                ordering=order,
                min_samples=case["min_points"],
                min_cluster_size=size,
                xi=xi,
            )[0].tolist()
            for xi, size in case["xi"]
        ],
        "dbscan": [
            cluster_optics_dbscan(
                reachability=reachability, core_distances=core, ordering=order, eps=eps
            ).tolist()
            for eps in case["eps"]
        ],
        "silhouette": {
            "exact": silhouette(points, case["labels"], metric="minkowski", p=2),
            "usual": silhouette(points, case["labels"]),
        },
        "components": {
            "coordinates": components.transform(points)[:, :2].tolist(),
            "explained": numbers(components.explained_variance_ratio_),
        },
    }


with open(sys.argv[1]) as cases:
    json.dump([judge(case) for case in json.load(cases)], sys.stdout)
