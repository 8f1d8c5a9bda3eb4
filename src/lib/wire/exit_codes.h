/* exit_codes.h - how the end of a command is given as one number: by cordon run as its own exit
 * code, by the server as "exit_code" of an execution. Clients compare these. They must not change.
 */
#pragma once

enum {
	EXIT_USAGE = 2,		   /* the command line is wrong, nothing was started */
	EXIT_TIMEOUT = 124,	   /* it ran longer than it may */
	EXIT_CORDON = 125,	   /* cordon failed, not the command */
	EXIT_NOT_EXECUTABLE = 126, /* found, but could not be started */
	EXIT_NOT_FOUND = 127,
	EXIT_SIGNAL = 128, /* + the number of the signal that ended it */
	EXIT_MEMORY = EXIT_SIGNAL + 9,
};
