# The image of every service of ours: workers, beat, Flower, metrics, migrations.
#
# Locked versions with hashes, nobody's root, nothing to write to but /tmp.

FROM python:3.12-slim AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
RUN python -m venv /opt/afterturn
WORKDIR /build
COPY requirements.lock ./
RUN /opt/afterturn/bin/pip install --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY afterturn afterturn
COPY producers producers
COPY schedules schedules
COPY storage storage
COPY tasks tasks
COPY workers workers
RUN /opt/afterturn/bin/pip install --no-deps --no-build-isolation . \
    && /opt/afterturn/bin/python -m compileall -q /opt/afterturn/lib

FROM python:3.12-slim
LABEL org.opencontainers.image.title="afterturn" \
      org.opencontainers.image.description="Durable task-queue workers for the memory of long-running AI agents" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --create-home --uid 10001 --shell /usr/sbin/nologin afterturn
COPY --from=build /opt/afterturn /opt/afterturn
ENV PATH=/opt/afterturn/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /home/afterturn
USER 10001:10001
# Takes passwords and keys from the files that NAME_FILE names, then becomes the command.
ENTRYPOINT ["python", "-m", "afterturn.container"]
CMD ["afterturn", "--help"]
