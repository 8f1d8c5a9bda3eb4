/* sql_error.c - see sql_error.h. */
#include "sql_error.h"

#include <errno.h>

struct meaning {
	enum err_code code;
	enum err_reason reason;
	int sys;
	const char *words;
};

static struct meaning constraint(int extended)
{
	switch (extended) {
	case SQLITE_CONSTRAINT_FOREIGNKEY:
		return (struct meaning){ ERR_NOT_FOUND, REASON_NONE, 0,
					 "the row that it belongs to does not exist" };
	case SQLITE_CONSTRAINT_PRIMARYKEY:
	case SQLITE_CONSTRAINT_UNIQUE:
		return (struct meaning){ ERR_CONFLICT, REASON_NONE, 0, "it exists already" };
	default:
		return (struct meaning){ ERR_INVALID, REASON_NONE, 0,
					 "the schema refuses a value" };
	}
}

static struct meaning meaning_of(int code, int sys)
{
	/* SQLite reports some cases of a full disk as I/O errors: one of them, without an errno, when
	 * the index of the journal cannot grow. */
	if (sys == ENOSPC || sys == EDQUOT || code == SQLITE_IOERR_SHMSIZE)
		return (struct meaning){ ERR_LIMIT, REASON_STORAGE_FULL, sys, "the disk is full" };
	switch (code & 0xff) {
	case SQLITE_CONSTRAINT:
		return constraint(code);
	case SQLITE_FULL:
		return (struct meaning){ ERR_LIMIT, REASON_STORAGE_FULL, 0, "the disk is full" };
	case SQLITE_TOOBIG:
		return (struct meaning){ ERR_LIMIT, REASON_TOO_LARGE, 0, "too large" };
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return (struct meaning){ ERR_SYSTEM, REASON_UNAVAILABLE, 0,
					 "another process holds the database, try again" };
	case SQLITE_IOERR:
		return (struct meaning){ ERR_SYSTEM, REASON_NONE, sys != 0 ? sys : EIO,
					 "the disk failed" };
	case SQLITE_NOMEM:
		return (struct meaning){ ERR_SYSTEM, REASON_NONE, ENOMEM, "out of memory" };
	case SQLITE_READONLY:
		return (struct meaning){ ERR_SYSTEM, REASON_NONE, EROFS,
					 "the database cannot be written to" };
	case SQLITE_CANTOPEN:
		return (struct meaning){ ERR_SYSTEM, REASON_NONE, sys != 0 ? sys : EIO,
					 "cannot be opened" };
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return (struct meaning){ ERR_INVALID, REASON_DAMAGED, 0,
					 "the file is damaged or is not a database" };
	default:
		return (struct meaning){ ERR_SYSTEM, REASON_NONE, sys, "failed" };
	}
}

int sql_error(sqlite3 *db, int code, const char *what, const char *id, struct err *e)
{
	/* For other codes SQLite may still have the errno of an earlier call. */
	int primary = code & 0xff;
	int sys = primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN || primary == SQLITE_FULL
			  ? sqlite3_system_errno(db)
			  : 0;
	struct meaning m = meaning_of(code, sys);

	/* A constraint is a client's mistake, and needs no words of the database. */
	if (primary == SQLITE_CONSTRAINT && (m.code == ERR_CONFLICT || m.code == ERR_NOT_FOUND))
		(void)err_set(e, m.code, "%s%s%.40s: %s", what, id[0] == '\0' ? "" : " ", id,
			      m.words);
	else
		(void)err_set(e, m.code, "store: %s%s%.40s: %s (%s, %d)", what,
			      id[0] == '\0' ? "" : " ", id, m.words, sqlite3_errstr(code), code);
	e->reason = m.reason;
	e->sys = m.sys;
	return -1;
}
