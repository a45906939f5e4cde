# The real SGLang on CPU with the plugin and a tiny model: the demo's own environment, installed into the image.
FROM python:3.11-slim-bookworm
RUN apt-get update \
 && apt-get install --yes --no-install-recommends libnuma1 \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY requirements/sidecar.txt requirements/sidecar.txt
RUN pip install --no-cache-dir --require-hashes -r requirements/sidecar.txt
COPY . .
ARG VERSION
RUN SETUPTOOLS_SCM_PRETEND_VERSION=$VERSION pip install --no-cache-dir --no-deps .
ENV HICACHE_WITNESS_CACHE=/opt/hicache-witness PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp
RUN python -c "from hicache_proof.demo.environment import ensure; ensure()" && chmod -R a+rX /opt/hicache-witness
USER 10001:10001
EXPOSE 30000
ENTRYPOINT ["python", "/source/deploy/images/engine_cpu.py"]
