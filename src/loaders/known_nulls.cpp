// Written by scripts/known-nulls.py of transformers 5.24.
#include "known_names.hpp"

namespace shardweld::loaders {

const std::string_view kNullFields = R"(
a activation_dropout b activation_function c add_cross_attention d attention_bias e
attention_dropout f attention_probs_dropout_prob g audio_token_id h bos_token_id i
classifier_dropout j conv_kernel_size k d_model l decoder_attention_heads m decoder_ffn_dim n
decoder_layerdrop o decoder_layers p decoder_start_token_id q depths r dropout s
encoder_attention_heads t encoder_ffn_dim u encoder_layerdrop v encoder_layers w head_dim x
hidden_dropout y hidden_dropout_prob z hidden_size A image_size B image_token_id C
image_token_index D init_std E initializer_factor F initializer_range G intermediate_size H
is_decoder I is_encoder_decoder J layer_norm_eps K layer_norm_epsilon L moe_intermediate_size M
n_group N n_routed_experts O n_shared_experts P norm_topk_prob Q num_attention_heads R
num_channels S num_experts T num_experts_per_tok U num_hidden_layers V num_key_value_heads W
output_router_logits X pad_token_id Y patch_size Z pretraining_tp 0 projection_dim 1 qkv_bias 2
rms_norm_eps 3 routed_scaling_factor 4 router_aux_loss_coef 5 scale_embedding 6 sliding_window 7
tie_word_embeddings 8 topk_group 9 use_cache + v_head_dim - video_token_id * vocab_size
)";

const std::string_view kNullRefusals = R"(
*: parakeet_ctc 0: altclip vision-text-dual-encoder 7: diffusion_gemma emu3 gemma4 gemma4_unified
gemma4_unified_assistant kosmos-2 kosmos-2.5 minicpm_ocr pe_audio_video 7*: granite_speech5_ctc
79: voxtral_realtime 79*: bart 9: gemma3n A7: minicpmv4_6 minicpmv4_7 AF: edgetam_video sam2_video
textnet AFJR: dinov3_convnext mobilenet_v1 mobilenet_v2 AFJRY: convnext convnextv2 AFR:
align_vision_model efficientnet B: inkling2 inkling2_loop step3p7 B-: muse_glimmer perception_lm
B7: cohere2_vision deepseek_ocr2 deepseek_vl deepseek_vl_hybrid glm_image hunyuan_vl internvl
janus lfm2_vl lighton_ocr qianfan_ocr unlimited_ocr B7-: cohere_compass cosmos3_edge cosmos3_omni
ernie4_5_vl_moe exaone4_5 glm46v glm4v glm4v_moe glm5_next glm_ocr glmga hy_v4_vl
hyperclovax_vision_v2 kimi_k25 lfm3_vl paddleocr_vl qwen2_5_vl qwen2_vl qwen3_5 qwen3_5_moe
qwen3_vl qwen3_vl_moe qwen4_exp video_llama_3 B79: granite_docling idefics2 idefics3 smolvlm BI7:
florence2 C: mllama C7: aya_vision fast_vlm got_ocr2 granite4_vision llama4 llava llava_next
llava_next_video llava_onevision minimax_m3_vl mistral3 mistral_large4 pp_chart2table video_llava
vipllava CF7: aria qwen2_5_omni_thinker shieldgemma2 D: maskformer E: musicgen musicgen_melody
siglip siglip2 E0: aimv2 clap clvp owlv2 owlvit xclip EF: blip-2 instructblip instructblipvideo
EF0: groupvit EF07: blip EFI7: pix2struct F: bark chinese_clip colmodernvbert colqwen2 edgetam
fastspeech2_conformer_hifigan glm_image_vqmodel higgs_audio_v2_tokenizer nemotron3_diarization
sam2 sam3 sam3_lite_text sam3_tracker sam3_tracker_video sam3_video speecht5_hifigan superpoint
timm_wrapper univnet vitpose xcodec zoedepth F*: omniasr_ctc F0: align F2: gemma4_unified_audio
inkling_audio F7: fuyu granite_speech granite_speech_plus molmo2 sam sam_hq F79*: blt dbrx FI79*:
canary FI9: dia FJ: edgetam_vision_model sam2_vision_model sam3_vision_model FJR1: cvt FK7*:
openai-gpt FK79*: ctrl FY: chmv2 depth_anything depth_pro prompt_depth_anything FY2:
gemma4_unified_vision I: pp_formulanet vision-encoder-decoder I9: rag IX*: nemotron3_5_asr
nemotron_asr_streaming parakeet_rnnt parakeet_tdt R: pp_lcnet_v4 resnet timm_backbone X*: lasr_ctc
abcekprD579*: xglm abcemrtzDHI79*: prophetnet abcerDJ579*: kosmos_2_text_model abcerzEHQU579*:
musicgen_decoder musicgen_melody_decoder abdekmorD: lw_detr abdekmorDGJ: rf_detr
abeiklmnoprstuvDHI579*: bigbird_pegasus abeiklmnoprstuvDI79*: led abeiklmnorstuvDHI579*: mbart mvp
plbart abeklmnoprDH579*: trocr abeklmnoprstuvDHI579*: blenderbot marian abeklmnoprstuvDI579*:
speech_to_text whisper abeklmnorstuvDHI579*: blenderbot-small pegasus abeklmnorstuvDI579: fsmt
abeklmnorstuvDI579*: m2m_100 pegasus_x abeklmnorstuvDI9: autoformer informer
time_series_transformer abeklmnorstuvDIR: conditional_detr detr table-transformer
abeklmnorstuvDISW4579*: nllb-moe abeklmnorsvDI579*: pp_formulanet_text abeklmorstuvDIR7:
deformable_detr abeklmorstvDIJ7: grounding-dino mm-grounding-dino abeklmorstvFIJ: pp_doclayout_v2
rt_detr abeklmorstvFIJ7: d_fine deimv2 pp_doclayout_v3 rt_detr_v2 abekrstuvF5: qwen2_audio_encoder
abekrstvF5: qwen2_5_omni_audio_encoder qwen3_asr_encoder qwen3_omni_moe_audio_encoder
abelmnoprstuvzFIJ579*: seamless_m4t seamless_m4t_v2 abelmorstvzDI7: dab-detr abelmorstvzFIJ7:
pp_doclayout_v4 aberDJ579*: kosmos_2_5_text_model aberzFGQU: moss_transcribe_diarize_audio
aberzFGQU5: audioflamingo3_encoder aberzFGQU5*: voxtral_encoder adejrzFGJQU: lasr_encoder
adejrzFGQU: parakeet_encoder adejrzFGQU6: nemotron_asr_streaming_encoder adejzFGQU*:
granite_speech5_encoder adwzFGQUV27: neucodec xcodec2 aehxzFGJQUX*: unispeech-sat aekxFJ7*: funnel
aelmnostuvxzFIJ579*: speecht5 aexzFGJQU: omniasr_audio wav2vec2 wav2vec2-bert wav2vec2-conformer
aexzFGJQU*: data2vec-audio hubert sew sew-d unispeech wavlm aexzFJQU*: vits afyzFGJQU579*: biogpt
bFK79*: codegen gptj bcFK79*: gpt-sw3 gpt2 gpt_bigcode imagegpt bcezEFKQU9*: clvp_decoder bczFK9*:
decision_transformer bdezFQ: efficientloftr beizFK79*: gpt_neo bekDQU: patchtst berzDQU79*: opt
bewzFGQU269*: voxtral_realtime_encoder bezFGTUVW279*: jetmoe borvDQ: mask2former bqFY01:
florence_vision cfjyzFGHJQU7*: convbert cfjyzFGJQU7*: nystromformer cfyzEGHJQU9*:
bridgetower_text_model cfyzFGHJQU*: bros cfyzFGHJQU0*: dpr cfyzFGHJQU7*: tapas cfyzFGHJQU79*: bert
bert-generation big_bird camembert data2vec-text electra ernie megatron-bert rembert roberta
roberta-prelayernorm roc_bert roformer xlm-roberta xlm-roberta-xl xmod cfyzFGJQU7*: mra yoso
ckAEHIKRY79*: udop ckEHIKS479*: switch_transformers cpzEHK79*: pix2struct_text_model deFQU:
lightglue dehizFGQUX79*: modernbert-decoder deiwzFGQTUVW24679*: openai_privacy_filter
deixzFGHJQU79*: gpt_neox deizFGQU2679*: ultrabert deizFGQU7*: modernbert depzFGI79*: moonshine
derzFGQU: dots3_note_audio_encoder dewxzFGKLMNOPQTVW3789*: nemotron_h dewzFGJPQSTUW79*:
cohere2_moe dewzFGJQRUVY: molmo2_vision dewzFGLMNOPQTUVW234789+*: glm5_next_text
dewzFGLMNOPQTUVW23789*: sarvam_moe dewzFGLMNOPQTUVW23789+*: deepseek_v32 dots3_note_text
glm_moe_dsa hy_v4 hy_v4_vl_text dewzFGLMNOQTUVW23789+*: mistral_large4_text
dewzFGLMNPQTUVW26789+*: mimo_v2_flash dewzFGLMOPQTUW23789+*: bailing_hybrid dewzFGLNOPQTUVW2379+*:
axk2 dewzFGLNQTUVWX279*: step3p5 dewzFGLPQSTUVW2379*: beam dewzFGLPQSTUVW24679*: flint
dewzFGLPQSTUVW2479*: mellum qwen3_next dewzFGLQSTUVW24679*: laguna dewzFGLQUVW279*: hy_v3
dewzFGQTUVW2479*: gpt_oss llama4_text dewzFGQU2: pe_audio_encoder pe_audio_video_encoder
pe_video_encoder dewzFGQU279*: cosmos3_edge_text qwen3 dewzFGQU29*: qwen3_vl_text dewzFGQUV2:
timesfm2_5 dewzFGQUV279*: gemma glm4 helium molmo2_text qwen3_5_text
qwen3_omni_moe_talker_code_predictor dewzFGQUV679*: dory dewzFGQUV79*: lfm3 dewzFGQUVY7*: neomme
dewzFGQV: molmo2_adapter dewzFLMNOPQTUVW23789*: solar_open dewzFLNOPQTUVW234679*: deepseek_v4
dewzFLPQSTUVW24679*: lara_mini dewzFLPQSTUVW2479*: qwen4_exp_text dewzFLQSTUVW2479*:
qwen3_5_moe_text dewzFLQSTUVW279*: zaya dewzFNQW2379+*: longcat_flash deyzAFGJQRUY:
internvl_vision qianfan_ocr_vision dezAFGJY: glm_image_vision dezAFGY2: glm4v_moe_vision
glm4v_vision glm5_next_vision glm_ocr_vision dezAFJQRUY0: janus_vision_model dezFGIQU79*:
cohere_asr dezFGJQU79*: cohere2 cohere_compass_text dezFGJQUX9*: gradium_phonon_tts pocket_tts
dezFGLMNOPQTUVW234789*: glm4v_moe_text dezFGLMNOPQTUVW23789*: glm4_moe dezFGLMNOPQTUVWZ23789+*:
glm4_moe_lite dezFGLPQSTUVW2479*: qwen3_moe qwen3_omni_moe_talker_text dezFGLPQSTUVW249*:
qwen3_omni_moe_text dezFGLQRUY2: dots3_note_vision_encoder dezFGLQSTUVW2479*: qwen3_vl_moe_text
dezFGPQSTUW2479*: olmoe dezFGQSUWZ279*: hunyuan_v1_moe dezFGQTUVW2479*: phimoe dezFGQU279*:
apertus apertus1p5_text arcee granite granite4_vision_text granite_docling_text granite_swa
hyperclovax internlm3 iquestcoder nanochat olmo2 olmo3 smollm3 dezFGQU79*: nemotron olmo
dezFGQUV679: mimi mimi_decoder mimi_encoder dezFGQUV69: pocket_tts_audio_tokenizer
pocket_tts_audio_tokenizer_decoder pocket_tts_audio_tokenizer_encoder dezFGQUX29*: glm_image_text
dezFGQUZ279*: eurobert hunyuan_v1_dense hunyuan_vl_text seed_oss dezGIQU79*: moonshine_streaming
dezGQU279*: recurrent_gemma dezGQUV: moonshine_streaming_encoder dgzFGQUV279*: higgs_audio_v2
dwzFGHQUV279*: t5_gemma_module dwzFGIQUV9*: canary_decoder dwzFGLQTUVW2379*: muse_spark_text
dwzFGQU279*: hrm_text dwzFGQUV26*: embedding_gemma2_text dwzFGQUV267*: diffusion_gemma_text
dwzFGQUV2679*: gemma3n_text gemma4_text gemma4_unified_text dwzFGQUV279*: gemma2 gemma3_text
muse_glimmer_text t5gemma2_decoder t5gemma2_text vaultgemma dxzFGPQSTUW2479*: doge dzFGJQU79*:
jais2 dzFGLMNOQTUVW23789+*: axk1 dzFGLMOPQUW2379*: kimi_linear dzFGLNOQUW2379*: deepseek_ocr2_text
deepseek_v3 mistral4 sarvam_mla unlimited_ocr_text dzFGLNOQUW2379+*: deepseek_v2 dzFGLQUW2379*:
dots1 dzFGLQUW279*: afmoe dzFGPQSTUW2479*: flex_olmo dzFGQU27*: falcon_h1 dzFGQU279*: EvollaModel
aria_text bamba bitnet diffllama evolla exaone glm granitemoe granitemoe_swa granitemoehybrid
granitemoeshared llama minicpm3 olmo_hybrid dzFGQU29*: csm csm_depth_decoder_model dzFGQU7*: esmc
dzFGQU79*: cohere dzGQUV279*: youtu eAEFGJQRUY: idefics_vision eCFI7: t5gemma2 eI7*: t5gemma
efzFJQUY1: vjepa2 ehwzFGQUVZ2679*: cwm ehzFGQUX279*: emu3_text_model ejwzFGLNOQTUV2*: inkling_text
ejwzFLNQTUV29*: inkling2_loop_text inkling2_text eqrzAEFGJQRUY: groupvit_vision_model erDJ7*:
flaubert xlm erF7*: distilbert erzEFGJQU*: groupvit_text_model erzEGJQU0*: clvp_encoder
ewzCFGQUV279*: qwen2_5_omni_talker ewzEFGJQU: kosmos_2_5_vision_model ewzFGQTUVW23479*:
minimax_m3_vl_text ewzFGQTUVW2479*: minimax_m2 ewzFGQU2: timesfm ewzFGQUV279*: ministral3
ewzFLPQSTUVW279*: kolibri1 ewzGQUV26: muse_glimmer_assistant exzAFGJQRUY: sam3_vit_model
exzFGJQU79*: persimmon exzFGJQUV79*: stablelm exzFHJQU79*: gpt_neox_japanese exzFKZ79*: bloom
exzGJQU: fun_asr_nano_encoder eyzAFGJQRUY: eomt_dinov3 eyzAFJQRUY: eomt videomt ezABGJQRUY:
phi4_multimodal_vision ezAEFGJQRUY: kosmos_2_vision_model mlcd mlcd_vision_model
owlv2_vision_model owlvit_vision_model xclip_vision_model ezAFGJQRUY: dinov3_vit git_vision_model
granite_docling_vision idefics2_vision idefics3_vision minimax_m3_vl_vision smolvlm_vision
ezAFGJQUY0: blip_vision_model ezAFGJQUY1: blip_2_vision_model instructblip_vision_model
instructblipvideo_vision_model ezAFGQRUY: llama4_vision_model pixtral ezAFGQRUY12:
aimv2_vision_model ezAFGQRUY12*: ovis2_vision ezAFGQRUY2: sapiens2 ezAFJQRUY1:
deepseek_ocr2_sam_vision_model got_ocr2_vision pp_chart2table_vision pp_formulanet_vision
sam_hq_vision_model sam_vision_model slanext_vision unlimited_ocr_sam_vision_model ezAGJQRUY:
minicpm_ocr_vision minicpmv4_6_vision minicpmv4_7_vision paddleocr_vl_vision siglip_vision_model
step3p5_vision ezEFGJQU*: owlv2_text_model owlvit_text_model xclip_text_model ezEFJQU:
pix2struct_vision_model ezFGJQRUY: video_llama_3_vision ezFGJQU*: tipsv2_text_model
ezFGLMPQSTUVW236789*: exaone_moe ezFGLPQSTUW12479*: qwen2_moe ezFGQSTUVW2479*: jamba
ezFGQTUVW2479*: minimax mixtral ezFGQU: glmasr_encoder nemotron3_5_transcribe_asr_audio
nemotron3_diarization_audio ezFGQU*: nemotron3_5_transcribe_word_timestamp ezFGQU12*:
aimv2_text_model ezFGQU279*: deepseek_ocr2_encoder phi3 phi4_multimodal qwen2 qwen2_5_omni_text
ezFGQU29*: glm4v_text ezFGQUV279*: exaone4 ministral mistral zamba ezFGQUV29*: glm_ocr_text
voxtral_realtime_text ezFGQUV79*: starcoder2 ezFJQRUY: inkling2_vision ezFQU2679*:
kyutai_speech_to_text moshi moshi_depth ezFQU279*: zamba2 ezFV2: idefics2_perceiver ezGJQRUY:
cosmos3_edge_vision siglip2_vision_model ezGJQU*: siglip2_text_model siglip_text_model ezGJQU0*:
sam3_lite_text_text_model ezGQRUY2: hunyuan_vl_vision hy_v4_vl_vision ezJQ1: pp_ocrv5_mobile_rec
pp_ocrv5_server_rec pp_ocrv6_small_rec ezQ: emu3_vqgan fjyAFJQRY1: mobilevit fkAFJ*: perceiver
fqyAFJQR1: pvt pvt_v2 fqyAFJRY1: donut-swin maskformer-swin swin swin2sr swinv2 fqyFJQR: glpn
segformer fqyFJRY1: dinat fqyzEJQUY01: clap_audio_model fyzAFGJQR1: videoprism_vision_model
fyzAFGJQRU1: vivit fyzAFGJQRUY: data2vec-vision videomae fyzAFGJQRUY*: beit fyzAFGJQRUY1: deit
ijepa timesformer vit vit_mae vit_msn yolos fyzAFGJQRUY1*: flava_image_model fyzAFGJQRUY17*: vilt
fyzAFJQRSUY1: vitpose_backbone fyzAFJQRUY1: dinov2 dinov2_with_registers pixio radio
rf_detr_dinov2 tipsv2_vision_model fyzEFGQU*: altclip_text_model fyzEGJQU0*: clap_text_model
fyzFGHJQU079*: blip_text_model fyzFGJQRUY*: layoutlmv3 fyzFGJQU: canine fyzFGJQU*:
align_text_model blip_2_qformer chinese_clip_text_model instructblip_qformer
instructblipvideo_qformer layoutlmv2 layoutxlm lilt splinter tvp fyzFGJQU1: flava_multimodal_model
fyzFGJQU1*: flava_text_model videoprism_text_model fyzFGJQU7*: albert deberta deberta-v2 gte ibert
longformer luke mobilebert mpnet squeezebert visual_bert fyzFGJQU79*: git jina_embeddings_v3
layoutlm fyzFGJQU9*: markuplm fyzFGJQUX*: nomic_bert fyzFGJQUY1: audio-spectrogram-transformer
fyzFGQ7*: lxmert fzFHQ: superglue g: audioflamingo3 musicflamingo nemo_speechlm vibevoice_asr g7:
glmasr moss_transcribe_diarize gB: inkling_mm_model gB-: muse_spark gB7: apertus1p5 gB7-:
dots3_note gBF7-: qwen3_omni_moe_thinker gF: omniasr gF7: fun_asr_nano gFX7: qwen3_asr gX:
vibevoice gzFGQ: phi4_multimodal_audio hrzFGQUV279*: mllama_text_model iBF7: modernvbert
ultravbert ikEHIK79*: mt5 ikEHIK9*: t5 umt5 j: sapiens2_head jAFJRY: mobilevitv2 jqFU2:
muse_spark_audio jr: granite_speech_encoder granite_speech_plus_encoder jzFGQUVY: lfm3_vl_vision
jzFQU2: gemma4_audio kEHIK79*: longt5 pop2piano kFK79*: mpt krD: patchtsmixer krFJ7*: xlnet
orvDJQ: oneformer ovzI*: fastspeech2_conformer qAFJRY: hiera qAFQRY: levit qAR: swiftformer qFR:
hgnet_v2 qFRY: poolformer qR: bit regnet rt_detr_resnet qyAFJRY: focalnet qzF2:
vibevoice_acoustic_tokenizer vibevoice_acoustic_tokenizer_decoder
vibevoice_acoustic_tokenizer_encoder r: apertus1p5_vision_tokenizer chameleon_vqgan rFU0:
janus_vqgan rwzQU: qwen2_5_omni_dit rxzFGJQ: sam3_detr_decoder sam3_detr_encoder
sam3_geometry_encoder sam3_lite_text_detr_decoder sam3_lite_text_detr_encoder
sam3_lite_text_geometry_encoder rzFGQU279*: idefics rzFJQ: sam3_lite_text_mask_decoder
sam3_mask_decoder svADIJ: omdet-turbo wzFGIQRUV9*: dia_decoder wzFGQUV*: dia_encoder wzFGQUVY2:
gemma4_vision wzFKU79*: mamba2 y: pp_lcnet yzAFJQRUY1: seggpt yzFGJU7*: fnet yzFHJQ79*: reformer
z: encodec pp_ocrv6_tiny_rec slanet slanext wavtokenizer wavtokenizer_encoder z2*: gemma3n_audio
zAEJRUY: bridgetower_vision_model zAFGRUY: mllama_vision_model zAFJQRUY1: lw_detr_vit mgp-str
vitdet zAJY: edgetam_prompt_encoder edgetam_video_prompt_encoder sam2_prompt_encoder
sam2_video_prompt_encoder sam3_tracker_prompt_encoder sam3_tracker_video_prompt_encoder
sam_hq_prompt_encoder sam_prompt_encoder zB7*: ovis2 zC07*: paligemma zDQU79*: cpmant zEFGJQRU:
clipseg_vision_model unlimited_ocr_vision_encoder zEFGJQRU0: altclip_vision_model
chinese_clip_vision_model clip_vision_model metaclip_2_vision_model zEFJ07: flava zEJQU7:
bridgetower zF: dpt jev upernet vitmatte zF*: flava_image_codebook zF2*: gemma3n_vision zFGJQU79*:
phi zFGLPQSTUVW379*: lfm2_moe zFGLQU279*: ernie4_5_moe zFGQU*: clip_text_model clipseg_text_model
metaclip_2_text_model zFGQU27: blt_global_transformer zFGQU27*: blt_local_decoder blt_patcher
ernie4_5 paddleocr_vl_text zFGQU279*: chameleon ernie4_5_vl_moe_text zFGQU29*: qwen2_5_vl_text
qwen2_vl_text zFGQU79: esm zFGQUV79*: lfm2 zFGVY: exaone4_5_vision zFGY: cohere_compass_vision
qwen2_5_omni_vision_encoder qwen2_5_vl_vision qwen3_5_moe_vision qwen3_5_vision
qwen3_omni_moe_vision_encoder qwen3_vl_moe_vision qwen3_vl_vision qwen4_exp_vision zFGY2:
ernie4_5_vl_moe_vision zFJQR: sam2_hiera_det_model zFKU79*: falcon_mamba mamba zFQRUY2:
inkling_vision zFQU2*: blt_local_encoder zFQU79*: falcon zFY: qwen2_vl_vision zGJQUY:
muse_glimmer_vision muse_spark_vision zGQUY: kimi_k25_vision zGU2: vibevoice_diffusion zJQU:
sam_hq_mask_decoder sam_mask_decoder zKU79*: rwkv zQU: edgetam_mask_decoder
edgetam_video_mask_decoder sam2_mask_decoder sam2_video_mask_decoder sam3_tracker_mask_decoder
sam3_tracker_video_mask_decoder zU79*: xlstm
)";

}  // namespace shardweld::loaders
