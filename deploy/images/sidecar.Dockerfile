# The sidecar, and every other command of hicache-witness. Built from the checkout: no published package is assumed.
FROM python:3.11-slim-bookworm AS wheel
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim-bookworm
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir "$(echo /wheels/*.whl)[lab,gpu]" && rm -r /wheels
USER 10001:10001
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
EXPOSE 9838
ENTRYPOINT ["hicache-witness"]
CMD ["serve"]
