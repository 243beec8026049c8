"""ReFrame test of a site's installation: makes a small checkpoint, merges it with the site's launcher, verifies the model and compares every byte.

    reframe -C SITE.py -c packaging/reframe/shardweld_check.py -r -S modules=shardweld -S num_tasks=8

Also with -S: executable (a path where there is no module), num_tasks_per_node, layers (7 MB each; the default is for the answer, not the rate).
"""

import hashlib
import json
import os
import struct

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import deferrable, performance_function, run_before, sanity_function, variable

SHARDS = 4
HIDDEN, INNER, WORDS = 512, 1536, 4096


def shapes_of(layers):
    shapes = {'model.embed_tokens.weight': (WORDS, HIDDEN), 'model.norm.weight': (HIDDEN,), 'lm_head.weight': (WORDS, HIDDEN)}
    for layer in range(layers):
        prefix = f'model.layers.{layer}.'
        for name in 'qkvo':
            shapes[f'{prefix}self_attn.{name}_proj.weight'] = (HIDDEN, HIDDEN)
        shapes[f'{prefix}mlp.gate_proj.weight'] = (INNER, HIDDEN)
        shapes[f'{prefix}mlp.up_proj.weight'] = (INNER, HIDDEN)
        shapes[f'{prefix}mlp.down_proj.weight'] = (HIDDEN, INNER)
        for name in ('input', 'post_attention'):
            shapes[f'{prefix}{name}_layernorm.weight'] = (HIDDEN,)
    return shapes


def values_of(name, shape):
    """Small bf16 numbers that depend on the name alone."""
    count = shape[0] * (shape[1] if len(shape) > 1 else 1)
    values = bytearray(2 * count)
    values[0::2] = hashlib.shake_128(name.encode()).digest(count)
    values[1::2] = b'\x3c' * count
    return bytes(values)


def write_safetensors(path, tensors, metadata):
    """tensors: a dictionary of (shape, values) by name."""
    header, end = {'__metadata__': metadata}, 0
    for name, (shape, values) in tensors.items():
        header[name] = {'dtype': 'BF16', 'shape': shape, 'data_offsets': [end, end + len(values)]}
        end += len(values)
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    with open(path, 'wb') as file:
        file.write(struct.pack('<Q', len(text)) + text)
        file.writelines(values for _, values in tensors.values())


def read_safetensors(path):
    """The values by name."""
    with open(path, 'rb') as file:
        header = json.loads(file.read(struct.unpack('<Q', file.read(8))[0]))
        data = file.read()
    header.pop('__metadata__', None)
    return {name: data[slice(*entry['data_offsets'])] for name, entry in header.items()}


def write_checkpoint(path, shapes, layers):
    """Rows of each tensor over SHARDS files, as the HuggingFace storage writer of torch.distributed.checkpoint stores them."""
    os.makedirs(path)
    config = {'architectures': ['LlamaForCausalLM'], 'model_type': 'llama', 'torch_dtype': 'bfloat16', 'hidden_size': HIDDEN,
              'intermediate_size': INNER, 'num_hidden_layers': layers, 'num_attention_heads': 8, 'num_key_value_heads': 8,
              'vocab_size': WORDS, 'max_position_embeddings': 4096, 'rms_norm_eps': 1e-05, 'tie_word_embeddings': False}
    with open(os.path.join(path, 'config.json'), 'w') as file:
        json.dump(config, file)
    for shard in range(SHARDS):
        tensors, begins = {}, {}
        for name, shape in shapes.items():
            rows, values = shape[0] // SHARDS, values_of(name, shape)
            size = len(values) // SHARDS
            tensors[name] = ((rows, *shape[1:]), values[shard * size:(shard + 1) * size])
            begins[name] = {'saved_offsets': [shard * rows] + [0] * (len(shape) - 1)}
        write_safetensors(os.path.join(path, f'shard-{shard + 1:05}-model-00001-of-00001.safetensors'), tensors,
                          {'DCP_SHARDING_INFO': json.dumps(begins), 'DCP_VERSION': '1.0', 'format': 'pt'})


def differences(path, files, layers):
    """Names of tensors that are not what write_checkpoint() stored."""
    shapes, merged = shapes_of(layers), {}
    for file in files:
        merged.update(read_safetensors(os.path.join(path, file)))
    return sorted(name for name in {*shapes, *merged} if name not in shapes or merged.get(name) != values_of(name, shapes[name]))


@rfm.simple_test
class shardweld_check(rfm.RunOnlyRegressionTest):
    descr = 'merges, verifies and compares a small checkpoint'
    valid_systems = ['*']
    valid_prog_environs = ['*']
    sourcesdir = None
    executable = 'shardweld'
    executable_opts = ['merge', 'checkpoint', 'merged', '--report', 'report.json']
    num_tasks = 4
    layers = variable(int, value=4)

    @run_before('run')
    def make_checkpoint(self):
        write_checkpoint(os.path.join(self.stagedir, 'checkpoint'), shapes_of(self.layers), self.layers)
        self.prerun_cmds = [f'{self.executable} --version']
        self.postrun_cmds = [f'{self.executable} verify merged --report report.json && echo verified']

    @deferrable
    def report(self):
        with open(os.path.join(self.stagedir, 'report.json')) as file:
            return json.load(file)

    @deferrable
    def different(self):
        files = [file['name'] for file in self.report().evaluate()['files']]
        return differences(os.path.join(self.stagedir, 'merged'), files, self.layers)

    @sanity_function
    def is_right(self):
        return sn.all([
            sn.assert_found(r'^shardweld \d', self.stdout, 'no version'),
            sn.assert_found(r'^verified$', self.stdout, 'verify failed'),
            sn.assert_eq(self.report()['environment']['ranks'], self.num_tasks, 'the ranks did not join: {0} instead of {1}'),
            sn.assert_eq(self.different(), [], 'tensors differ: {0}'),
        ])

    @performance_function('bytes/s')
    def merge_rate(self):
        """What was written, in the time of the whole run without the launch."""
        report = self.report().evaluate()
        return sum(file['bytes'] for file in report['files']) / sum(phase['wall_s'] for phase in report['phases'])
