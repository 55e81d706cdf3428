#!/bin/sh
# An S3 endpoint with a certificate of a company's own authority (MinIO, Ceph), and three clients in
# one program: boto3, obstore and pyarrow, each with its defaults. boto3 1.44.5, obstore 0.11.1,
# pyarrow 26.0.1, Python 3.11, Linux.
#
# Expected: AWS_CA_BUNDLE, AWS's own variable, is enough; the others are documented to read AWS's
# variables. Seen on 2026-11-28, whether each client accepts the server:
#                    boto3   obstore   pyarrow
#   AWS_CA_BUNDLE    yes     no        no
#   SSL_CERT_FILE    no      yes       yes
# A program with two of them needs both variables. Exits 1 if this changes.
set -eu
work=$(mktemp -d)
trap 'kill "$server" 2>/dev/null; rm -rf "$work"' EXIT
server=
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet boto3==1.44.5 obstore==0.11.1 pyarrow==26.0.1
new="-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
openssl req -x509 $new -keyout ca.key -out ca.pem -subj /CN=A 2>/dev/null
openssl req $new -keyout key.pem -out ask.pem -subj /CN=here 2>/dev/null
echo 'subjectAltName=IP:127.0.0.1' >names
openssl x509 -req -in ask.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names \
    -out chain.pem 2>/dev/null
cat >server.py <<'PY'
import http.server
import ssl


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with open("seen", "a") as file:
            file.write(self.path + "\n")
        self.send_response(403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("chain.pem", "key.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
with open("port", "w") as file:
    file.write(str(server.server_port))
server.serve_forever()
PY
venv/bin/python server.py 2>/dev/null &
server=$!
until [ -s port ]; do sleep 0.1; done
cat >client.py <<'PY'
import sys

name, port = sys.argv[1:]
url = f"https://127.0.0.1:{port}"
if name == "boto3":
    import boto3

    boto3.client("s3", "us-east-1", endpoint_url=url).head_object(Bucket="ours", Key="a")
elif name == "obstore":
    import obstore.store

    store = obstore.store.S3Store("ours", endpoint=url, region="us-east-1")
    store.head("a")
else:
    import pyarrow.fs

    host = url.partition("//")[2]
    fs = pyarrow.fs.S3FileSystem(endpoint_override=host, scheme="https", region="us-east-1")
    fs.get_file_info("ours/a")
PY
unset SSL_CERT_FILE SSL_CERT_DIR AWS_CA_BUNDLE REQUESTS_CA_BUNDLE CURL_CA_BUNDLE
export AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b AWS_MAX_ATTEMPTS=1
seen=
for variable in AWS_CA_BUNDLE SSL_CERT_FILE; do
    for client in boto3 obstore pyarrow; do
        : >seen
        env "$variable=$work/ca.pem" timeout 60 venv/bin/python client.py "$client" "$(cat port)" \
            >/dev/null 2>&1 || true
        accepted=no
        [ ! -s seen ] || accepted=yes
        echo "$variable, $client: $accepted"
        seen="$seen $accepted"
    done
done
[ "$seen" = " yes no no no yes yes" ]
