"""How labkit may use a cluster: cluster.toml."""

from __future__ import annotations

import tomllib

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from labkit.errors import nearest
from labkit.launchers.kubernetes.errors import ClusterError
from labkit.launchers.limits import LONGEST
from labkit.settings import REPOSITORY, cluster_file


class Settings(BaseModel):
    """How labkit uses a cluster; ``templates/cluster.toml`` explains each field."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    context: str | None = None
    namespace: str | None = None
    image: str = "localhost/labkit-{framework}:{tag}"
    cpu_request: float | None = Field(None, gt=0)
    public_images: bool = False
    memory: str = Field("2Gi", pattern=r"^[1-9][0-9]*(Mi|Gi|M|G)$")
    memory_request: str | None = Field(None, pattern=r"^[1-9][0-9]*(Mi|Gi|M|G)$")
    one_worker_per_node: bool = False
    share_nodes: bool = False
    parallel: int = Field(1, ge=1)
    node_selector: dict[str, str] = {}
    tolerations: list[dict[str, str]] = []
    wait_for_room: float = Field(15.0, ge=0, le=LONGEST)
    queue: str | None = Field(None, pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")
    patience: float = Field(300.0, ge=0, le=LONGEST)

    @field_validator("image")
    @classmethod
    def _can_be_filled_in(cls, image: str) -> str:
        try:
            image.format(framework="mxnet", tag="1")
        except (LookupError, ValueError):
            raise ValueError("{framework} and {tag} are all that can be filled in") from None
        return image

    @classmethod
    def load(cls) -> Settings:
        """Read ``cluster.toml``, or the file that LABKIT_CLUSTER names; defaults without either.

        Raises
        ------
        ClusterError
            With every mistake in the file.
        """
        named = cluster_file()
        path = named or REPOSITORY / "cluster.toml"
        if not named and not path.exists():
            return cls()
        try:
            return cls(**tomllib.loads(path.read_text()))
        except OSError as error:
            raise ClusterError(f"{path} cannot be read: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ClusterError(f"{path}: {error}") from None
        except ValidationError as error:
            lines = []
            for finding in error.errors():
                field = ".".join(map(str, finding["loc"]))
                known = cls.model_fields
                hint = "" if field in known else nearest(field, list(known))
                lines.append(f"{field}: {finding['input']!r}: {finding['msg']}{hint}")
            raise ClusterError(f"{path}:\n  " + "\n  ".join(lines)) from None
