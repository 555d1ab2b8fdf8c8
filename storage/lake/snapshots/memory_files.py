"""Files in memory for pyiceberg, which writes and reads Avro through files of its own kind."""

from __future__ import annotations

import io

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream


class _Written(io.BytesIO):
    """What is written; its bytes outlive closing."""

    data = b""

    def close(self) -> None:
        if not self.closed:
            self.data = self.getvalue()
        super().close()


class MemoryOutput(OutputFile):
    """A file that is written into memory; `data` has its bytes once it is closed."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self._stream = _Written()

    @property
    def data(self) -> bytes:
        """The bytes of the file."""
        return self._stream.data

    def __len__(self) -> int:
        return len(self._stream.data)

    def exists(self) -> bool:
        """See `OutputFile.exists`."""
        return False

    def to_input_file(self) -> InputFile:
        """See `OutputFile.to_input_file`."""
        return MemoryInput(self.location, self.data)

    def create(self, overwrite: bool = False) -> OutputStream:
        """See `OutputFile.create`."""
        return self._stream


class MemoryInput(InputFile):
    """A file whose bytes are `data`."""

    def __init__(self, location: str, data: bytes) -> None:
        super().__init__(location)
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def exists(self) -> bool:
        """See `InputFile.exists`."""
        return True

    def open(self, seekable: bool = True) -> InputStream:
        """See `InputFile.open`."""
        return io.BytesIO(self._data)


class MemoryFiles(FileIO):
    """The files `files`, by their locations."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__({})
        self._files = files

    def new_input(self, location: str) -> InputFile:
        """See `FileIO.new_input`."""
        return MemoryInput(location, self._files[location])

    def new_output(self, location: str) -> OutputFile:
        """See `FileIO.new_output`."""
        return MemoryOutput(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """See `FileIO.delete`."""
        raise NotImplementedError("files in memory are not deleted")
