# SGLang's own image with the plugin installed beside it; nothing else in it changes.
ARG SGLANG_VERSION=0.5.23
FROM python:3.11-slim-bookworm AS wheel
WORKDIR /source
COPY . .
ARG VERSION
RUN SETUPTOOLS_SCM_PRETEND_VERSION=$VERSION pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM lmsysorg/sglang:v${SGLANG_VERSION}
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir --no-deps /wheels/*.whl && rm -r /wheels \
 && mkdir -p /home/engine/.cache && chown -R 10001:10001 /home/engine
USER 10001:10001
EXPOSE 30000
ENTRYPOINT ["python3", "-m", "sglang.launch_server"]
