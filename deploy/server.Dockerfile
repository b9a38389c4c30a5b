# The server of a policy, on a CPU or on a GPU (`--gpus all`).
#
#   docker build -f deploy/server.Dockerfile -t oatkit-server .
#   docker run --read-only --tmpfs /tmp -p 8000:8000 \
#     -v "$PWD/out/policy:/policy:ro" -v "$PWD/key.txt:/run/secrets/api_key:ro" \
#     oatkit-server --api-key-file /run/secrets/api_key
#
# It runs as a user without rights, writes nothing outside of /tmp, and gets the policy read-only.
# PIP_INDEX_URL and PIP_EXTRA_INDEX_URL choose where packages come from, such as torch for CPUs.
FROM python:3.12-slim-bookworm AS build
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
RUN python -m venv /opt/oatkit
COPY pyproject.toml README.md LICENSE /src/
COPY src /src/src
COPY packages/oatkit-client /src/packages/oatkit-client
RUN /opt/oatkit/bin/pip install --no-cache-dir /src/packages/oatkit-client '/src[serve,onnx,vlm]'

FROM python:3.12-slim-bookworm
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin oatkit
COPY --from=build /opt/oatkit /opt/oatkit
ENV PATH=/opt/oatkit/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HOME=/tmp \
    OATKIT_CACHE=/tmp/oatkit
USER 10001
EXPOSE 8000
# A policy warms up before it listens, which takes minutes for a large one.
HEALTHCHECK --interval=5s --timeout=3s --start-period=10m --retries=3 \
  CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/healthz', timeout=2)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["oatkit", "serve", "/policy", "--host", "0.0.0.0", "--port", "8000"]
