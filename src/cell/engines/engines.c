/* engines.c - which engines this program has. */
#include "cell/engines/engine.h"

const struct engine_ops *engine_find(enum boot_engine engine)
{
	if (engine == BOOT_GVISOR)
		return &engine_gvisor;
	return engine == BOOT_MICROVM ? &engine_qemu : NULL;
}
