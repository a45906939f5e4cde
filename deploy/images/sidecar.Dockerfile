# The sidecar, and every other command of hicache-witness. Built from the checkout, with the locked packages.
FROM python:3.11-slim-bookworm AS wheel
WORKDIR /source
COPY . .
ARG VERSION
RUN SETUPTOOLS_SCM_PRETEND_VERSION=$VERSION pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim-bookworm
COPY requirements/sidecar.txt /tmp/sidecar.txt
RUN pip install --no-cache-dir --require-hashes -r /tmp/sidecar.txt
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir --no-deps /wheels/*.whl
USER 10001:10001
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
EXPOSE 9838
ENTRYPOINT ["hicache-witness"]
CMD ["serve"]
