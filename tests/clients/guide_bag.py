"""Makes the bag of docs/guide/messages.md, as ROS 2 records one in SQLite: guide_bag.py FOLDER"""

import sqlite3
import struct
import sys
from pathlib import Path

folder = Path(sys.argv[1])
folder.mkdir()
database = sqlite3.connect(folder / "bag_0.db3")
database.executescript(
    """create table topics(id INTEGER PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL, serialization_format TEXT NOT NULL,
           offered_qos_profiles TEXT NOT NULL, type_description_hash TEXT NOT NULL);
       create table messages(id INTEGER PRIMARY KEY, topic_id INTEGER NOT NULL, timestamp INTEGER NOT NULL, data BLOB NOT NULL);
       create table message_definitions(id INTEGER PRIMARY KEY, topic_type TEXT NOT NULL, encoding TEXT NOT NULL,
           encoded_message_definition TEXT NOT NULL, type_description_hash TEXT NOT NULL);"""
)
rows = []
for number, (topic, name, field) in enumerate((("/f", "Float64", "float64"), ("/chatter", "String", "string")), 1):
    kind = f"std_msgs/msg/{name}"
    database.execute("insert into topics values (?, ?, ?, 'cdr', '', '')", (number, topic, kind))
    database.execute("insert into message_definitions values (?, ?, 'ros2msg', ?, '')", (number, kind, f"{field} data\n"))
rows += [(1, n, b"\0\1\0\0" + struct.pack("<d", n / 2)) for n in range(10)]
for n, text in enumerate((b"hello\0", b"hello again\0")):
    rows.append((2, n, b"\0\1\0\0" + struct.pack("<I", len(text)) + text))
database.executemany("insert into messages(topic_id, timestamp, data) values (?, ?, ?)", rows)
database.commit()
database.close()
about = f"rosbag2_bagfile_information:\n  version: 9\n  relative_file_paths:\n    - bag_0.db3\n  message_count: {len(rows)}\n"
(folder / "metadata.yaml").write_text(about)
