/* Copies a list of texels, for the measure of a device's memory: an invocation takes one, and those as
 * many further on as there are invocations. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "numeric.glsl"

layout(local_size_x_id = 0) in;
layout(set = 0, binding = 0, std430) readonly buffer From { uvec4 from[]; };
layout(set = 0, binding = 1, std430) writeonly buffer To { uvec4 to[]; };

void main()
{
    uint n = from.length(), step = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    for (uint i = gl_GlobalInvocationID.x; i < n; i += step)
        to[i] = from[i];
}
