# Tare's web server, worker and clock: one image, three commands (docker-compose.yml).
FROM python:3.13-slim

RUN apt-get update \
    && apt-get install -y --no-install-recommends tini \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /tare
COPY requirements.lock requirements-build.txt ./
# PIP_CONSTRAINT reaches the isolated builds as well: one package still needs an old setuptools.
RUN PIP_CONSTRAINT=requirements-build.txt pip install --no-cache-dir --require-hashes -r requirements.lock
COPY manage.py ./
COPY dashboard dashboard
COPY experiments experiments
COPY runners runners
COPY templates templates
COPY static static
RUN SECRET_KEY=build CREDENTIAL_KEYS= DATABASE_URL=postgresql://build@build/build \
    python manage.py collectstatic --noinput --skip-checks \
    && useradd --system --create-home tare
USER tare
EXPOSE 8000
ENTRYPOINT ["tini", "--"]
CMD ["gunicorn", "dashboard.wsgi", "--bind", "0.0.0.0:8000", "--threads", "4", "--worker-tmp-dir", "/dev/shm"]
