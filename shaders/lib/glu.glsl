/* A gated unit: what becomes of a gate and what it lets through. Include numeric.glsl first. */
/* Of enum pointwise. */
const uint SILU = 0u, GELU = 1u, CLAMPED = 2u, SIGMOID = 7u, LINEAR = 8u, RELU = 12u,
           GELU_ALONE = 13u, TANH_ALONE = 15u, SOFTPLUS = 17u;

float glu(uint kind, float gate, float up)
{
    switch (kind) {
    case SILU: return num_keep(fmul(num_silu(gate), up));
    case GELU: return num_keep(fmul(num_gelu(gate), up));
    case SIGMOID: return num_keep(fmul(num_sigmoid(gate), up));
    case SOFTPLUS: return num_keep(fmul(num_softplus(gate), up));
    case RELU: return num_keep(fmul(num_relu(gate), up));
    case CLAMPED: return num_clamped_glu(gate, up);
    case GELU_ALONE: return num_gelu(gate);
    case TANH_ALONE: return num_keep(num_tanh(gate));
    default: return num_keep(fmul(gate, up)); /* LINEAR */
    }
}
