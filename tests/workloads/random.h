/* SPDX-License-Identifier: GPL-2.0 */
/* Random numbers that come again with what "state" begins with, which must not be 0: the generator xorshift64*. */
#include <stdint.h>

static uint64_t state;

/* A number below \most. */
static inline unsigned int below(unsigned int most)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (state * 0x2545f4914f6cdd1d >> 33) % most;
}
