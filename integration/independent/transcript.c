// SPDX-License-Identifier: MIT OR Apache-2.0

#include "transcript.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ROW 16

static bool is_on;

void transcript_begin(void)
{
    is_on = true;
}

void transcript_step(const char *format, ...)
{
    va_list arguments;
    if (!is_on)
        return;
    printf("# ");
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
}

static bool is_zero(const unsigned char *bytes, size_t length)
{
    for (size_t at = 0; at < length; at++)
        if (bytes[at] != 0)
            return false;
    return true;
}

void transcript_bytes(const char *what, const void *bytes, size_t length)
{
    const unsigned char *rows = bytes;
    bool was_left_out = false;
    if (!is_on)
        return;
    printf("%s, %zu bytes\n", what, length);
    for (size_t at = 0; at < length; at += ROW) {
        size_t in_row = length - at < ROW ? length - at : ROW;
        if (at > 0 && at + ROW < length && is_zero(rows + at - ROW, ROW + in_row)) {
            if (!was_left_out)
                puts("  *");
            was_left_out = true;
            continue;
        }
        was_left_out = false;
        printf("  %03zx ", at);
        for (size_t byte = 0; byte < in_row; byte++)
            printf("%s%02x", byte % 8 == 0 ? "  " : " ", rows[at + byte]);
        putchar('\n');
    }
}
