/* Decodes messages with a generated codec and encodes them again; the result must be the same bytes. */
#include <stdio.h>
#include <stdlib.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

int main(int words, char **word) {
    static uint64_t memory[1 << 15];
    static uint8_t again[1 << 18];
    unsigned long count = 0;
    FILE *file = words > 1 ? fopen(word[1], "rb") : NULL;
    if (!file) return 2;

    for (uint32_t length; fread(&length, 4, 1, file) == 1; count++) {
        /* Exactly as long as the message: reading beyond its end is found. */
        uint8_t *bytes = (uint8_t *)malloc(length);
        struct MESSAGE message;
        if (fread(bytes, 1, length, file) != length) return 2;
        if (JOIN(MESSAGE, _decode)(&message, bytes, length, memory, sizeof memory) < 0) return 3;
        if (JOIN(MESSAGE, _encode)(&message, again, sizeof again) != (int64_t)length) return 4;
        if (memcmp(bytes, again, length)) return 5;
        for (uint32_t part = 0; part < length; part++)
            if (JOIN(MESSAGE, _encode)(&message, again, part) != -1) return 6;
        /* A part of a message is refused; its last bytes may belong to no field of the type. */
        if (JOIN(MESSAGE, _decode)(&message, bytes, length - 1, memory, sizeof memory) >= 0) return 7;
        free(bytes);
    }

    printf("%lu\n", count);
    fclose(file);
    return 0;
}
