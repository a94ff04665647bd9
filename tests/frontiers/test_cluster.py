import joblib
import pytest

from tests.frontiers.conftest import small

distributed = pytest.importorskip("distributed", reason="needs dask.distributed")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_dask_cluster_gives_the_same(tmp_path, curve):
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=tmp_path
    )
    with cluster, distributed.Client(cluster), joblib.parallel_config(backend="dask"):
        assert joblib.effective_n_jobs() == 2
        found = small(strengths=(0.3, 3.0), out=tmp_path / "run")
    for point in found.points:
        same = next(p for p in curve.points if p.member == point.member)
        assert point.residual == pytest.approx(same.residual, rel=1e-3)
    assert len(list((tmp_path / "run").glob("*/*/audit.json"))) == 2
