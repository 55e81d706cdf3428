#!/bin/sh
# Ceph 16.2.15 (Debian 12), S3 through its gateway: conditional writes with boto3 1.44.8.
#
# Expected, as AWS, MinIO's successors and versitygw do it: a write with IfMatch=ETag succeeds while the
# object is that one; IfNoneMatch="*" refuses one that is there. Seen on 2026-11-28:
#
#   put_object(IfMatch=the ETag as head_object gives it, in quotes)   412, always
#   put_object(IfMatch=the same without quotes)                       200; another ETag 412
#   put_object(IfNoneMatch="*") on an object that is there            412, right
#   complete_multipart_upload(IfNoneMatch="*") on it                  200, it is overwritten
#   put_object(ChecksumSHA256=that of other bytes)                    200
#
# So a compare-and-swap by ETag never succeeds (get_object takes both spellings), a file that is large
# enough to go in parts overwrites in spite of the condition, and the checksums that boto3 sends are
# not compared.
#
# Debian 12, about 70 MB of packages, which are unpacked and not installed. Ports 6789 and 7480 of
# loopback must be free. Exits 1 if that changes.
set -eu
work=$(mktemp -d)
trap 'for f in "$work"/*.p; do kill "$(cat "$f")" 2>/dev/null || true; done; sleep 1; rm -rf "$work"' EXIT
version=16.2.15+ds-0+deb12u2
names=$(for name in radosgw ceph-mon ceph-osd ceph-common; do echo "$name=$version"; done)
mkdir -p "$work/debs/partial" "$work/mon" "$work/osd"
# shellcheck disable=SC2086
apt-get install -qq --download-only --yes --no-install-recommends -o "Dir::Cache::archives=$work/debs" \
    $names >/dev/null
(cd "$work" && apt-get download -qq libfuse2 2>/dev/null)
for file in "$work"/debs/*.deb "$work"/*.deb; do dpkg -x "$file" "$work/root"; done
lib=$work/root/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH="$lib:$lib/ceph:$work/root/lib/x86_64-linux-gnu"
export PYTHONPATH="$work/root/usr/lib/python3/dist-packages" PATH="$work/root/usr/bin:$PATH"
cat >"$work/ceph.conf" <<CONF
[global]
fsid = 11111111-2222-3333-4444-555555555555
mon initial members = a
mon host = 127.0.0.1:6789
public network = 127.0.0.0/8
auth cluster required = none
auth service required = none
auth client required = none
auth allow insecure global id reclaim = true
osd pool default size = 1
osd pool default min size = 1
mon allow pool size one = true
osd crush chooseleaf type = 0
osd pool default pg num = 4
mon max pg per osd = 2000
mon data avail crit = 1
mon cluster log file = /dev/null
plugin dir = $lib/ceph
erasure code dir = $lib/ceph/erasure-code
osd class dir = $lib/rados-classes
osd objectstore = memstore
memstore device bytes = 1073741824
log file = $work/log
run dir = $work
mon data = $work/mon
osd data = $work/osd
[client.rgw]
rgw frontends = beast endpoint=127.0.0.1:7480
rgw data = $work
rgw run sync thread = false
rgw enable gc threads = false
rgw enable lc threads = false
CONF
conf="-c $work/ceph.conf"
start() {
    name=$1
    shift
    "$@" >"$work/out" 2>&1 &
    echo $! >"$work/$name.p"
}
# shellcheck disable=SC2086
{
    monmaptool --create --add a 127.0.0.1:6789 --fsid 11111111-2222-3333-4444-555555555555 \
        "$work/monmap" >/dev/null
    ceph-mon $conf --mkfs -i a --monmap "$work/monmap"
    start mon ceph-mon $conf -i a -f
    uuid=$(cat /proc/sys/kernel/random/uuid)
    timeout 60 /usr/bin/python3 "$work/root/usr/bin/ceph" $conf osd new "$uuid" >/dev/null
    ceph-osd $conf -i 0 --mkfs --osd-uuid "$uuid" 2>/dev/null
    start osd ceph-osd $conf -i 0 -f
    start rgw radosgw $conf -n client.rgw -f
    timeout 120 radosgw-admin $conf -n client.rgw user create --uid=u --display-name=u \
        --access-key=key --secret-key=secret >/dev/null 2>&1
}
unset LD_LIBRARY_PATH PYTHONPATH
cat >"$work/conditions.py" <<'PY'
import base64
import hashlib
import time

import boto3
from botocore.exceptions import BotoCoreError, ClientError

keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
client = boto3.client("s3", endpoint_url="http://127.0.0.1:7480", **keys)
for left in reversed(range(60)):
    try:
        client.create_bucket(Bucket="bucket")
        break
    except (BotoCoreError, ClientError):
        if not left:
            raise
        time.sleep(1)
place = {"Bucket": "bucket", "Key": "k"}


def etag():
    return client.head_object(**place)["ETag"]


def code(call, **options):
    try:
        return call(**place, **options)["ResponseMetadata"]["HTTPStatusCode"]
    except ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"]


def in_parts(**options):
    upload = {**place, "UploadId": client.create_multipart_upload(**place)["UploadId"]}
    part = {"ETag": client.upload_part(**upload, PartNumber=1, Body=b"parts")["ETag"]}
    parts = {"Parts": [{**part, "PartNumber": 1}]}
    return client.complete_multipart_upload(**upload, MultipartUpload=parts, **options)


wrong = base64.b64encode(hashlib.sha256(b"other").digest()).decode()
seen = [
    code(client.put_object, Body=b"1", IfNoneMatch="*"),
    code(client.put_object, Body=b"2", IfMatch=etag()),
    code(client.put_object, Body=b"3", IfMatch=etag().strip('"')),
    code(client.put_object, Body=b"4", IfMatch="0" * 32),
    code(client.get_object, IfMatch=etag()),
    code(client.put_object, Body=b"5", IfNoneMatch="*"),
    code(lambda **_: in_parts(IfNoneMatch="*")),
]
content = client.get_object(**place)["Body"].read()
seen.append(code(client.put_object, Body=b"6", ChecksumSHA256=wrong))
print(seen, content)
raise SystemExit(seen != [200, 412, 200, 412, 200, 412, 200, 200] or content != b"parts")
PY
/usr/bin/python3 -m venv "$work/env"
"$work/env/bin/pip" install --quiet boto3==1.44.8
"$work/env/bin/python" "$work/conditions.py"
