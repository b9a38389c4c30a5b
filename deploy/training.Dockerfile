# Training and evaluation, on GPUs (`--gpus all`) or a CPU. The command is that of oatkit:
#
#   docker build -f deploy/training.Dockerfile -t oatkit-training .
#   docker run --gpus all --shm-size 8g -v "$PWD/data:/data:ro" -v "$PWD/out:/out" oatkit-training \
#     policy train --data /data/my_dataset --tokenizer /out/oat-pow2 --out /out/policy
#   docker run --gpus all --shm-size 8g --entrypoint accelerate ... oatkit-training \
#     launch --config_file /configs/accelerate/ddp.yaml -m oatkit.cli policy train ...
#
# A run that is stopped, or whose machine is lost, goes on where it was with the same command.
# PIP_INDEX_URL and PIP_EXTRA_INDEX_URL choose where packages come from.
FROM python:3.12-slim-bookworm AS build
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
RUN python -m venv /opt/oatkit
COPY pyproject.toml README.md LICENSE /src/
COPY src /src/src
COPY packages/oatkit-client /src/packages/oatkit-client
RUN /opt/oatkit/bin/pip install --no-cache-dir /src/packages/oatkit-client \
    '/src[data,vlm,report,onnx,serve]' tensorboard

FROM python:3.12-slim-bookworm
RUN useradd --uid 10001 --create-home --shell /usr/sbin/nologin oatkit \
    && install --directory --owner oatkit /out /cache
COPY --from=build /opt/oatkit /opt/oatkit
COPY configs /configs
ENV PATH=/opt/oatkit/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    OATKIT_CACHE=/cache/oatkit \
    HF_HOME=/cache/huggingface
USER 10001
VOLUME ["/out", "/cache"]
# Whether a training lives is what its log says, not an address.
HEALTHCHECK NONE
# a checkpoint is written before it ends
STOPSIGNAL SIGTERM
ENTRYPOINT ["oatkit"]
CMD ["doctor"]
