/* complete_values.h - the values of complete.h that only a server or the presets know. */
#pragma once

#include "cmd/base/complete.h"

/* Print them, and ask the shell for the rest. argv: the words behind the verb, the last one is
 * being typed. Without a server that answers within two seconds there are none. */
void complete_values(enum complete_want want, const struct verb *v, int argc, char **argv,
		     FILE *to);
