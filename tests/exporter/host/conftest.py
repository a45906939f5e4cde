import pytest


@pytest.fixture
def tree(tmp_path):
    """A small / of its own: ``tree({"proc/meminfo": "..."})`` writes files and gives the root."""

    def write(files):
        for name, text in files.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return tmp_path

    return write
