"""Small models with the operators of each of TVM's pattern tables, in the text notation."""

MODELS: dict[str, dict[str, str]] = {
    "cutlass": {
        "convolutions": """
            x: f16[1,16,16,8]; w: f16[16,3,3,8]; b: f16[16]; v: f16[16,3,3,16];
            c = nn.conv2d(x, w) [data_layout="NHWC", kernel_layout="OHWI", padding=[1,1,1,1]];
            a = add(c, b);
            r = nn.relu(a);
            d = nn.conv2d(r, v) [data_layout="NHWC", kernel_layout="OHWI", padding=[1,1,1,1]];
            e = add(d, b);
            s = add(r, e);
            y = nn.relu(s);
            return y;
        """,
        "dense": """
            x: f16[4,16,64]; w: f16[64,128]; b: f16[128]; v: f16[64,128]; q: f32[4,16,64];
            u: f32[64,7]; g: f32[64]; h: f32[64];
            m = matmul(x, w); a = add(b, m); e = nn.gelu(a);
            t = permute_dims(v); n = matmul(e, t); s = add(n, x);
            o = nn.layer_norm(q, g, h) [axes=[-1]]; p = matmul(o, u);
            z = nn.layer_norm(q, g, h) [axes=[-1], center=false];
            return s, p, z;
        """,
        "attention": """
            x: f16[2,8,96];
            s = split(x) [indices_or_sections=3, axis=2];
            a = s.0; b = s.1; c = s.2;
            q = reshape(a, [2,8,4,8]); k = reshape(b, [2,8,4,8]); v = reshape(c, [2,8,4,8]);
            t = nn.attention(q, k, v);
            u = nn.attention(t, k, v);
            return u;
        """,
    },
    "cublas": {
        "dense": """
            x: f32[4,64]; w: f32[64,128]; b: f32[128]; v: f32[32,128]; k: f32[4,4];
            m = matmul(x, w); a = add(b, m); r = nn.relu(a);
            t = permute_dims(v); n = matmul(r, t); g = nn.gelu(n);
            o = matmul(k, r); p = add(o, r); q = nn.gelu(p);
            return g, q;
        """,
        "leaking": """
            x: f32[4,64]; w: f32[64,128]; b: f32[128];
            m = matmul(x, w); a = add(m, b); r = nn.relu(a); s = add(r, m);
            return s;
        """,
        "integers": """
            x: i32[4,64]; w: i32[64,128]; y: f32[4,64]; z: f32[64,3];
            m = matmul(x, w); n = matmul(y, z);
            return m, n;
        """,
    },
    "cudnn": {
        "convolutions": """
            x: f32[1,8,16,16]; w: f32[16,8,3,3]; b: f32[1,16,1,1]; v: f32[8,3,3,16];
            c = nn.conv2d(x, w); a = add(c, b); r = nn.relu(a);
            t = permute_dims(r) [axes=[0,2,3,1]];
            d = nn.conv2d(t, v) [data_layout="NHWC", kernel_layout="OHWI"];
            e = nn.relu(d);
            return e;
        """,
        "attention": """
            x: f16[2,8,96];
            s = split(x) [indices_or_sections=3, axis=2];
            a = s.0; b = s.1; c = s.2;
            q = reshape(a, [2,8,4,8]); k = reshape(b, [2,8,4,8]); v = reshape(c, [2,8,4,8]);
            t = nn.attention(q, k, v);
            return t;
        """,
    },
    "tensorrt": {
        "network": """
            x: f32[1,3,16,16]; w: f32[8,3,3,3]; b: f32[1,8,1,1]; v: f32[8,8,1,1];
            c = nn.conv2d(x, w); a = add(c, b); r = nn.relu(a);
            p = nn.max_pool2d(r) [pool_size=[2,2], strides=[2,2]];
            q = nn.avg_pool2d(r) [pool_size=[2,2], strides=[2,2]];
            i = (p, q); j = concat(i) [axis=1];
            f = nn.batch_flatten(j); s = nn.softmax(f);
            return s;
        """,
        "split": """
            x: f32[1,8,4,4];
            d = tanh(x); e = split(d) [indices_or_sections=2, axis=1];
            f = e.0; g = e.1; h = exp(f); y = add(h, g);
            return y;
        """,
        "detour": """
            x: f32[4,4];
            a = nn.relu(x); b = nn.gelu(a); c = add(a, b); d = nn.gelu(c); e = sigmoid(a);
            f = multiply(d, e); g = sigmoid(b);
            return f, g;
        """,
        "slices": """
            x: f32[4,4]; a = strided_slice(x, [0], [0], [2]);
            b = strided_slice(x, [0], [2], [4], [1]);
            c = clip(a, 0.0, 6.0); y = add(c, b);
            return y;
        """,
    },
    "clml": {
        "network": """
            x: f32[1,3,16,16]; w: f32[8,3,3,3]; b = const f32[1,8,1,1] 0.5; v: f32[8,8,1,1];
            c = nn.conv2d(x, w); a = add(c, b); r = nn.relu(a);
            d = nn.conv2d(r, v); e = nn.relu(d); f = add(e, r);
            p = nn.max_pool2d(f) [pool_size=[2,2], strides=[2,2]];
            m = mean(p) [axis=[2,3]]; q = reshape(m, [1,8]); s = nn.softmax(q);
            return s;
        """,
        "normalized": """
            x: f32[1,8,8,8]; w: f32[8,8,1,1]; g = const f32[8] 1.0; h = const f32[8] 0.5;
            c = nn.conv2d(x, w); n = nn.batch_norm(c, g, h, h, g) [axis=1];
            f = n.0; r = nn.relu(f);
            m = nn.batch_norm(x, g, h, h, g) [axis=1]; k = m.0; l = reshape(k, [1,8,8,8]);
            y = add(r, l);
            return y;
        """,
    },
    "coreml": {
        "network": """
            x: f32[1,3,8,8]; w: f32[8,3,1,1]; v: f32[512,10];
            c = nn.conv2d(x, w); r = nn.relu(c); p = nn.avg_pool2d(r); k = clip(p, 0.0, 6.0);
            f = nn.batch_flatten(k); m = matmul(f, v); s = nn.softmax(m); e = exp(s);
            y = multiply(e, s);
            return y;
        """,
    },
    "nnapi": {
        "network": """
            x: f32[1,3,8,8]; w: f32[8,3,1,1]; b: f32[1,8,1,1]; i: i32[4];
            c = nn.conv2d(x, w); a = add(c, b); r = nn.relu(a);
            h = astype(r) [dtype=f16]; g = astype(h) [dtype=f32]; j = astype(i) [dtype=f32];
            m = mean(g) [axis=[2,3]]; s = nn.softmax(m); k = erf(j);
            return s, k;
        """,
        "alone": """
            x: f32[1,3,8,8]; w: f32[8,3,1,1];
            c = nn.conv2d(x, w); r = nn.relu(c); y = sigmoid(r);
            return y;
        """,
    },
    "hipblas": {
        "dense": """
            x: f16[4,64]; w: f16[64,128]; b: f16[128]; v: f16[32,128];
            m = matmul(x, w); a = add(b, m); r = nn.relu(a);
            t = permute_dims(v); n = matmul(r, t); g = nn.gelu(n);
            return g;
        """,
    },
    "example_npu": {
        "network": """
            x: f32[1,3,8,8]; w: f32[8,3,1,1]; v: f32[8,10]; u: f32[8,8,1,1];
            c = nn.conv2d(x, w); r = nn.relu(c); p = nn.max_pool2d(r); d = nn.conv2d(p, u);
            m = mean(d) [axis=[2,3]]; n = matmul(m, v); s = nn.relu(n); t = nn.softmax(s);
            return t;
        """,
    },
}
