/* numeric.h for GLSL: num_exp, num_rcp, num_keep and so on, on float, int and uint.
 *
 * Every addition, subtraction and multiplication of floats goes through fadd, fsub or fmul: the
 * `precise` result makes glslang decorate it NoContraction, so no driver may fuse two of them.
 * A test reads the SPIR-V and finds an operation that was written without. Rounding to even and
 * special values are asked for where a device lets that be said (src/vulkan/modes.h). */
#extension GL_EXT_spirv_intrinsics : require
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4467], 4462, 32);
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);
/* Of buffers that may be the same memory, where an op works in place: Aliased. Without it a compiler
 * may read a value once more after it was overwritten. */
#define SHARED_PLACE spirv_decorate(20)
#define NUM_KEEPS_PRIMITIVES /* shaders compute with them */
#define F float
#define I int
#define U uint
#define FN
#define NUM(name) num_##name
#define K(c) (c)
#define UK(c) (c)
#define sel_f(c, a, b) ((c) ? (a) : (b))
#define sel_u(c, a, b) ((c) ? (a) : (b))
#define u_of(x) floatBitsToUint(x)
#define f_of(u) uintBitsToFloat(u)
#define i_of_u(u) int(u)
#define u_of_i(i) uint(i)
#define f_of_i(i) float(i)

float fadd(float a, float b)
{
    precise float r = a + b;
    return r;
}

float fsub(float a, float b)
{
    precise float r = a - b;
    return r;
}

float fmul(float a, float b)
{
    precise float r = a * b;
    return r;
}

#include "base/numeric.h"
