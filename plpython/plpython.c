/*-------------------------------------------------------------------------
 *
 * plpython.c
 *	  The transform of extension securefile_plpython3u: a securefile is a Python
 *	  bytes object in functions of PL/Python that say TRANSFORM FOR TYPE securefile.
 *
 * A library of its own, since it needs Python's.  It calls two functions of the
 * library securefile, by name, and knows nothing of what a value looks like.
 *
 * From a value to Python there are two copies in memory for a moment, the bytea and
 * the bytes object.  To a value every object will do that lets others read its bytes
 * (bytes, bytearray, memoryview, array, mmap).  An object that does not is refused:
 * PL/Python by itself would store the text that str() makes of it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/compat.h"
#include "fmgr.h"
#include "utils/memutils.h"

/* From 18 on plpython.h hides how the bytes of an object are read (Py_LIMITED_API). */
#if __has_include("plpython_system.h")
#include "plpython_system.h"
#else
#include "plpython.h"
#endif

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(securefile_to_plpython3);
PG_FUNCTION_INFO_V1(plpython3_to_securefile);

/* A function of the library securefile. */
static PGFunction
find_function(const char *name)
{
	return (PGFunction) load_external_function("$libdir/securefile", name, true, NULL);
}

Datum
securefile_to_plpython3(PG_FUNCTION_ARGS)
{
	static PGFunction to_bytea = NULL;
	bytea	   *bytes;
	PyObject   *object;

	if (to_bytea == NULL)
		to_bytea = find_function("securefile_to_bytea");
	bytes = DatumGetByteaPP(DirectFunctionCall1(to_bytea, PG_GETARG_DATUM(0)));
	object = PyBytes_FromStringAndSize(VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
	pfree(bytes);
	if (object == NULL)
	{
		PyErr_Clear();
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("Python has no memory for a securefile value")));
	}
	PG_RETURN_POINTER(object);
}

/* What others may read of an object; to be released by PyBuffer_Release(). */
static void
get_buffer(PyObject * object, Py_buffer * buffer)
{
	if (PyObject_GetBuffer(object, buffer, PyBUF_FULL_RO) == 0)
		return;
	PyErr_Clear();
	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 errmsg("a Python object of type \"%s\" cannot be a securefile value",
					Py_TYPE(object)->tp_name),
			 errdetail("It must be bytes, bytearray, memoryview, or another object that has bytes to read."),
			 errhint("Make bytes of a str with encode().")));
}

static bytea *
new_bytea(Py_buffer * buffer)
{
	Size		len = buffer->len;
	bytea	   *bytes;

	if (len > MaxAllocSize - VARHDRSZ)
	{
		PyBuffer_Release(buffer);
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a Python object of %zu bytes is too long for a securefile value that is passed whole",
						len),
				 errdetail("Such a value may have at most 1 GB."),
				 errhint("Write it in pieces, with securefile_create(), securefile_write() and securefile_finish().")));
	}
	bytes = palloc_extended(VARHDRSZ + len, MCXT_ALLOC_NO_OOM);
	if (bytes == NULL)
	{
		PyBuffer_Release(buffer);
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory"),
				 errdetail("Failed on a securefile value of %zu bytes.", len)));
	}
	SET_VARSIZE(bytes, VARHDRSZ + len);
	return bytes;
}

Datum
plpython3_to_securefile(PG_FUNCTION_ARGS)
{
	static PGFunction from_bytea = NULL;
	PyObject   *object = (PyObject *) PG_GETARG_POINTER(0);
	Py_buffer	buffer;
	bytea	   *bytes;
	int			failed;
	Datum		value;

	if (from_bytea == NULL)
		from_bytea = find_function("securefile_from_bytea");
	get_buffer(object, &buffer);
	bytes = new_bytea(&buffer);
	/* a memoryview with a step is not in one piece */
	failed = PyBuffer_ToContiguous(VARDATA(bytes), &buffer, buffer.len, 'C');
	PyBuffer_Release(&buffer);
	if (failed)
	{
		PyErr_Clear();
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("the bytes of a Python object of type \"%s\" cannot be read",
						Py_TYPE(object)->tp_name)));
	}
	value = DirectFunctionCall1(from_bytea, PointerGetDatum(bytes));
	pfree(bytes);
	PG_RETURN_DATUM(value);
}
