# Tare's web server, workers and clock: one image, each a command (docker-compose.yml).
FROM python:3.13.15-slim-trixie

ENV PYTHONUNBUFFERED=1
WORKDIR /tare
COPY requirements.lock requirements-build.txt ./
# The build tool comes first, and builds nothing in isolation: how to pin it there differs between versions of pip.
RUN pip install --no-cache-dir -r requirements-build.txt \
    && pip install --no-cache-dir --no-build-isolation --require-hashes -r requirements.lock
COPY manage.py ./
COPY clients clients
COPY docs docs
COPY dashboard dashboard
COPY experiments experiments
COPY runners runners
COPY templates templates
COPY static static
RUN SECRET_KEY=build DATABASE_URL=postgresql://build@build/build \
    python manage.py collectstatic --noinput --skip-checks \
    # The user below may not write here: each process would compile all of it at its start: 1.1 s and 7 MB.
    && python -m compileall -q dashboard experiments runners \
    && useradd --system --create-home tare && install -d -o tare /images
ENV FIGURE_FOLDER=/home/tare/figures
USER tare
EXPOSE 8000
CMD ["gunicorn", "dashboard.wsgi", "--bind", "0.0.0.0:8000", "--threads", "4", "--worker-tmp-dir", "/dev/shm"]
