"""old_factors.py FILE EXPERTS: an adapter's factors of stacks of experts in the layout of peft before 0.19.1, or back: B' = A^T, A' = B^T of each."""
import sys

from edit_safetensors import read, write

tensors, n = read(sys.argv[1]), int(sys.argv[2])
for name in [name for name in tensors if ".experts." in name and name.endswith("lora_A.weight")]:
    other = name.replace("lora_A", "lora_B")
    (_, (rows, n_in), a), (_, (n_out, _), b) = tensors[name], tensors[other]
    r = rows // n
    tensors[name] = ["F32", [rows, n_out], b"".join(b[4 * at:4 * at + 4] for at in (o * rows + k * n + e for e in range(n) for k in range(r) for o in range(n_out)))]
    tensors[other] = ["F32", [n_in, rows], b"".join(a[4 * at:4 * at + 4] for at in ((e * r + k) * n_in + i for i in range(n_in) for k in range(r) for e in range(n)))]
write(sys.argv[1], tensors)
