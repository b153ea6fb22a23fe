"""What is read from files of our own: JSON or YAML with exactly the fields that we write."""

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A document that does not change; a field with another name is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
