"""Makes the toolbox for MATLAB: an archive in the layout of .mltbx, which MATLAB installs by a double click.

    dist-toolbox.py VERSION JAR OUT.mltbx

An .mltbx is a ZIP in the Open Packaging Conventions: the files of the toolbox in `fsroot`, its description in `metadata`. The same
files give the same bytes. MATLAB was not run.
"""

import sys
import zipfile
from pathlib import Path
from xml.sax.saxutils import escape

#: Names this toolbox wherever it is installed; another one would be another toolbox.
IDENTIFIER = "6f2f6a0e-6f62-4c57-9d0b-7a1d3c5f0b1e"
SUMMARY = "Reads and commands robots that onbeat runs, and loads their logs"
RELATIONS = "http://schemas.mathworks.com/package/2012/relationships"
PARTS = "http://schemas.openxmlformats.org/package/2006"
PLACES = {
    "addonProperties": "<addonProperties><name>onbeat</name><version>{version}</version><type>toolbox</type>"
    "<summary>{summary}</summary><GUID>{guid}</GUID></addonProperties>",
    "configuration": "<addonConfiguration><matlabPaths><matlabPath>fsroot</matlabPath></matlabPaths>"
    "<javaClassPaths><javaClassPath>fsroot/onbeat.jar</javaClassPath></javaClassPaths></addonConfiguration>",
    "systemRequirements": "<addonSystemRequirements><platformCompatibility><win>true</win><linux>true</linux><mac>true</mac>"
    "</platformCompatibility></addonSystemRequirements>",
}


def parts(version: str, jar: Path) -> dict[str, bytes]:
    """Returns the files of the archive by their names."""
    here = Path(__file__).resolve().parent.parent
    functions = sorted((here / "octave" / "+onbeat").glob("*.m"))
    assert functions, "no functions in octave/+onbeat"
    found = {f"fsroot/+onbeat/{path.name}": path.read_bytes() for path in functions}
    found["fsroot/onbeat.jar"] = jar.read_bytes()
    found["fsroot/README.md"] = (here / "octave" / "README.md").read_bytes()
    for name in ("LICENSE-MIT", "LICENSE-APACHE"):
        found[f"fsroot/{name}"] = (here / name).read_bytes()

    head = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
    words = {"version": version, "summary": escape(SUMMARY), "guid": IDENTIFIER}
    metadata = {f"metadata/{name}.xml": (head + text.format(**words)).encode() for name, text in PLACES.items()}
    listed = "".join(f"<fileEntry><name>{escape(name)}</name></fileEntry>" for name in found)
    metadata["metadata/filesystemManifest.xml"] = f"{head}<filesystemManifest>{listed}</filesystemManifest>".encode()
    metadata["metadata/coreProperties.xml"] = (
        f'{head}<cp:coreProperties xmlns:cp="{PARTS}/metadata/core-properties" xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f"<dc:title>onbeat</dc:title><dc:description>{escape(SUMMARY)}</dc:description><cp:version>{version}</cp:version>"
        "</cp:coreProperties>"
    ).encode()
    relations = "".join(
        f'<Relationship Id="rId{number}" Type="{RELATIONS}/{Path(name).stem}" Target="{name}"/>'
        for number, name in enumerate(metadata, 1)
    )
    kinds = {"xml": "application/xml", "rels": "application/vnd.openxmlformats-package.relationships+xml"}
    kinds |= {"m": "text/plain", "md": "text/plain", "jar": "application/java-archive"}
    types = "".join(f'<Default Extension="{end}" ContentType="{kind}"/>' for end, kind in kinds.items())
    types += "".join(f'<Override PartName="/fsroot/{name}" ContentType="text/plain"/>' for name in ("LICENSE-MIT", "LICENSE-APACHE"))
    return {
        "[Content_Types].xml": f'{head}<Types xmlns="{PARTS}/content-types">{types}</Types>'.encode(),
        "_rels/.rels": f'{head}<Relationships xmlns="{PARTS}/relationships">{relations}</Relationships>'.encode(),
        **metadata,
        **found,
    }


def main() -> None:
    version, jar, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts(version, jar).items():
            entry = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)


if __name__ == "__main__":
    main()
