from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from psycopg_pool import AsyncConnectionPool

from pgsecurefile import aio
from pgsecurefile.starlette import SecureFileResponse

pool = AsyncConnectionPool("", open=False, kwargs={"autocommit": True})  # "": PGHOST, PGDATABASE and the like


@asynccontextmanager
async def lifespan(app: FastAPI):
    async with pool:
        async with pool.connection() as conn:
            await conn.execute("CREATE EXTENSION IF NOT EXISTS securefile")
            await conn.execute("CREATE TABLE IF NOT EXISTS uploads (name text PRIMARY KEY, document securefile)")
        yield


app = FastAPI(lifespan=lifespan)


@app.put("/files/{name:path}")
async def upload(name: str, request: Request):
    async with pool.connection() as conn, aio.open(conn, "uploads", "document", {"name": name}, "wb") as file:
        async for piece in request.stream():
            await file.write(piece)
        return {"size": await file.tell()}


@app.api_route("/files/{name:path}", methods=["GET", "HEAD"])
async def download(name: str):
    return SecureFileResponse(pool.connection, "uploads", "document", {"name": name}, filename=name)
