/* start_error.c - see start_error.h. */
#include "start_error.h"

#include <errno.h>

#include "own.h"
#include "supervisor_msg.h"

int start_error_status(const struct err *e)
{
	static const int temporary[] = { EAGAIN, EBUSY,	 EDQUOT, EINTR, EIO,
					 EMFILE, ENFILE, ENOMEM, ENOSPC };

	for (size_t i = 0; i < COUNT(temporary); i++)
		if (e->sys == temporary[i])
			return 1;
	return e->code == ERR_LIMIT ? 1 : SERVE_EXIT_CANNOT_START;
}
