"""
The shapes of operands and results of nodes of ONNX, where letters say all that is known of them.
Those of onnxruntime are known as far as exporters and optimizers write them.
"""

from collections.abc import Mapping

from collage_dsl.language.inference.lettered import Lettered

LETTERED: Mapping[str, Lettered] = {
    "onnx.AffineGrid": Lettered("nij l", "."),
    "onnx.CausalConvWithState": Lettered("bcl c1k ?c ?bcs", "bcl bcs"),
    "onnx.Compress": Lettered(". n", "."),
    "onnx.InstanceNormalization": Lettered("nc* c c", "nc*"),
    "onnx.LinearAttention": Lettered("btq btk btv ?bgij ?bta ?bte", "bto bgij"),
    "onnx.MaxRoiPool": Lettered("nchw r5", "rcyx"),
    "onnx.OneHot": Lettered("* - 2", "."),
    "onnx.RoiAlign": Lettered("nchw r4 r", "."),
    "onnx.RotaryEmbedding": Lettered("* ~h ~h ?bs", "*"),
    "com.microsoft.Attention": Lettered("bsi iw ?w ?. ?2bnpd ?xysz ?-", "bsv 2bntd"),
    "com.microsoft.BiasAdd": Lettered("bsh h bsh", "bsh"),
    "com.microsoft.BiasDropout": Lettered("* . ?* ?- ?-", "* *"),
    "com.microsoft.BiasGelu": Lettered("*h h", "*h"),
    "com.microsoft.BiasSoftmax": Lettered("* .", "*"),
    "com.microsoft.CausalConvWithState": Lettered("* c1~ ?c ?.", "* ."),
    "com.microsoft.CDist": Lettered("mk nk", "mn"),
    "com.microsoft.CropAndResize": Lettered("nchw r4 r 2", "rcyx"),
    "com.microsoft.DecoderAttention": Lettered(
        "sbh kbx hh hw c ?bt ?bnpd ?bnpd - - - -", "sbh bnyd bnyd"
    ),
    "com.microsoft.DecoderMaskedSelfAttention": Lettered(
        "b1i iw w ?bt 2bnpd ?xy1z - ?- ?.", "b1v 2bnmd"
    ),
    "com.microsoft.EmbedLayerNormalization": Lettered("bs ?bs vh ph ?th h h ?bs ?~s", "bsh b bsh"),
    "com.microsoft.FastGelu": Lettered("*h ?h", "*h"),
    "com.microsoft.GatedAdd": Lettered("*c *c *1", "*c"),
    "com.microsoft.GatedRelativePositionBias": Lettered("~h h 1nst de e 1n11 ?bs", "bnst"),
    "com.microsoft.GatedRMSNorm": Lettered("*h c *h", "*h"),
    "com.microsoft.Gelu": Lettered("*", "*"),
    "com.microsoft.GemmaRotaryEmbedding": Lettered("bsd bnsd bnsd bmsd bmsd", "bnsd bmsd"),
    "com.microsoft.GemmFastGelu": Lettered("*k kn ?n", "*n"),
    "com.microsoft.GemmFloat8": Lettered("ij kl ?. ?. ?. ?.", "mn"),
    "com.microsoft.Inverse": Lettered("*nn", "*nn"),
    "com.microsoft.LinearAttention": Lettered("bt~ ?bt~ ?bt~ ?. ?bt~ ?bt~", "bto ."),
    "com.microsoft.LongformerAttention": Lettered("bsh . . bs . . bs", "bsh"),
    "com.microsoft.MatMulBlockQuantizedFp4Weight": Lettered("*k nj ni - ?- ?n", "*n"),
    "com.microsoft.MatMulBlockQuantizedFp8Weight": Lettered("*k nk ni ?- ?n", "*n"),
    "com.microsoft.MoE": Lettered("*h te eab ?ec efg ?eh ?eij ?ek", "*h"),
    "com.microsoft.MRotaryEmbedding": Lettered("* 3bs ph ph", "*"),
    "com.microsoft.NGramRepeatBlock": Lettered("bs bv", "bv"),
    "com.microsoft.PackedAttention": Lettered("ti iw w bs c ?xyss", "tv"),
    "com.microsoft.QAttention": Lettered("bsi iw w - . ?. ?- ?. ?2bnpd", "bsv 2bntd"),
    "com.microsoft.QEmbedLayerNormalization": Lettered(
        "bs ?bs vh ph ?th h h ?bs . . ?. . . . . ?. . .", "bsh b"
    ),
    "com.microsoft.QLinearLeakyRelu": Lettered("* . ?. . ?.", "*"),
    "com.microsoft.QLinearSigmoid": Lettered("* . ?. . ?.", "*"),
    "com.microsoft.QLinearSoftmax": Lettered("* . ?. . .", "*"),
    "com.microsoft.QuickGelu": Lettered("*", "*"),
    "com.microsoft.RelativePositionBias": Lettered("un - -", "1nst"),
    "com.microsoft.RemovePadding": Lettered("bsh b", "th bs c 1"),
    "com.microsoft.RestorePadding": Lettered("th bs", "bsh"),
    "com.microsoft.RotaryEmbedding": Lettered("* . ph ph", "*"),
    "com.microsoft.SkipLayerNormalization": Lettered("*sh ~sh h ?h ?h", "*sh *s1 *s1 *sh"),
    "com.microsoft.SkipSimplifiedLayerNormalization": Lettered("*sh ~sh h ?h", "*sh *s1 *s1 *sh"),
    "com.microsoft.SparseAttention": Lettered(
        "bsq ?bsk ?bsk bgmd bgmd lr lc - b ?ph ?ph", "bso bgmd bgmd"
    ),
    "com.microsoft.TorchEmbedding": Lettered("vm * ?- ?-", "*m"),
    "com.microsoft.Trilu": Lettered("*rc ?-", "*rc"),
}
"""What is known of each call of an operator, unless a rule says more of its results."""

TAKEN: Mapping[str, Lettered] = {
    "onnx.Attention": Lettered("b~ b~ b~ ?. ?bgpd ?bgpv ?b", "."),
    "onnx.Conv": Lettered("nc~ oi~ ?o", "."),
    "onnx.ConvTranspose": Lettered("nc~ cm~ ?o", "."),
    "onnx.DeformConv": Lettered("nc~ oi~ ng~ ?o ?nm~", "."),
    "onnx.QLinearConv": Lettered("nc~ . . oi~ . . . . ?o", "."),
    "onnx.STFT": Lettered("b~ - ?w ?-", "."),
    "com.microsoft.GridSample": Lettered("nchw nyx2", "."),
    "com.microsoft.GroupNorm": Lettered(". c c", "."),
    "com.microsoft.MatMulIntegerToFloat": Lettered(". ~kn . . ?. ?. ?~n", "."),
    "com.microsoft.NhwcConv": Lettered("n~c oi~ ?o", "."),
    "com.microsoft.NhwcFusedConv": Lettered("n~c oi~ ?o ?n~o", "."),
    "com.microsoft.PackedMultiHeadAttention": Lettered("t~ ?tk ?tv ?w bs c ?xyss", "."),
    "com.microsoft.SkipGroupNorm": Lettered(". c c . ?c", "."),
}
"""The operands of operators whose results another rule infers."""
