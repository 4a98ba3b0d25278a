/* classes.c - what transformers' tokenizer classes add to the files of a folder: special tokens where no file names
 * them, and how vocab.json with merges.txt is read. */
#include <string.h>

#include "pipeline.h"

const char *const cr_roles[CR_ROLES] = {"bos_token", "eos_token",  "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};

#define END_OF_TEXT "<|endoftext|>"
#define ROBERTA {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"}
#define BERT {NULL, NULL, "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"}

/* A class by its names, without "Fast"; model types of config.json that have it by default. */
static const cr_tokenizer_class classes[] = {
    {"GPT2Tokenizer CodeGenTokenizer", "gpt2 codegen gpt_neo gptj opt phi starcoder2 dbrx",
     .role = {END_OF_TEXT, END_OF_TEXT, END_OF_TEXT}, .byte_level = true},
    {"GPTNeoXTokenizer", "gpt_neox falcon_mamba mamba mamba2 mpt olmo olmoe",
     .role = {END_OF_TEXT, END_OF_TEXT, END_OF_TEXT, [CR_PAD] = "<|padding|>"}, .byte_level = true, .nfc = true},
    {"Qwen2Tokenizer", "qwen2 qwen2_moe qwen2_vl qwen2_5_vl qwen3 qwen3_moe qwen3_next qwen3_vl qwen3_vl_moe",
     .role = {NULL, END_OF_TEXT, END_OF_TEXT, [CR_PAD] = END_OF_TEXT}, .byte_level = true, .nfc = true,
     .splits = "qwen2"},
    {"Qwen3_5Tokenizer", "qwen3_5 qwen3_5_moe qwen3_5_text qwen3_5_moe_text",
     .role = {NULL, END_OF_TEXT, END_OF_TEXT, [CR_PAD] = END_OF_TEXT}, .byte_level = true, .nfc = true,
     .splits = "qwen35"},
    {"RobertaTokenizer BartTokenizer LEDTokenizer LongformerTokenizer MvpTokenizer",
     "roberta roberta-prelayernorm bart longformer led mvp", .role = ROBERTA, .byte_level = true, .around = true},
    {"DebertaTokenizer", "deberta", .role = {"[CLS]", "[SEP]", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"},
     .byte_level = true, .around = true},
    {"LlamaTokenizer CodeLlamaTokenizer", "", .role = {"<s>", "</s>", "<unk>"}, .first = true},
    {"GemmaTokenizer", "gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text recurrent_gemma t5gemma",
     .role = {"<bos>", "<eos>", "<unk>", [CR_PAD] = "<pad>", [CR_MASK] = "<mask>"}},
    {"T5Tokenizer", "t5 mt5", .role = {NULL, "</s>", "<unk>", [CR_PAD] = "<pad>"}, .ends = true, .sentinels = 100},
    {"BertTokenizer DistilBertTokenizer ElectraTokenizer ConvBertTokenizer MobileBertTokenizer LayoutLMTokenizer",
     "bert distilbert electra convbert mobilebert layoutlm megatron-bert nomic_bert squeezebert", .role = BERT},
    {"MPNetTokenizer", "mpnet", .role = {"<s>", "</s>", "[UNK]", "</s>", "<pad>", "<s>", "<mask>"}},
    {"XLMRobertaTokenizer", "xlm-roberta xmod", .role = ROBERTA, .around = true, .fairseq = true},
    {"CamembertTokenizer BarthezTokenizer MBartTokenizer MBart50Tokenizer NllbTokenizer",
     "camembert barthez mbart nllb",
     .role = ROBERTA, .foreign = true},
    {"AlbertTokenizer", "albert", .role = {"[CLS]", "[SEP]", "<unk>", "[SEP]", "<pad>", "[CLS]", "[MASK]"}},
    {"DebertaV2Tokenizer", "deberta-v2", .role = {"[CLS]", "[SEP]", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"}},
    {"XLNetTokenizer", "xlnet", .role = {"<s>", "</s>", "<unk>", "<sep>", "<pad>", "<cls>", "<mask>"}},
    {"PegasusTokenizer", "pegasus", .role = {NULL, "</s>", "<unk>", [CR_PAD] = "<pad>", [CR_MASK] = "<mask_2>"}},
    {"CohereTokenizer", "cohere cohere2",
     .role = {"<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", "<UNK>", "<SEP>", "<PAD>", "<CLS>", "<MASK_TOKEN>"}},
    {"WhisperTokenizer", "whisper", .role = {END_OF_TEXT, END_OF_TEXT, END_OF_TEXT}},
    {"CLIPTokenizer", "clip", .role = {"<|startoftext|>", END_OF_TEXT, END_OF_TEXT, [CR_PAD] = END_OF_TEXT}},
};

static const cr_json *text_of(const cr_json *object, const char *key) {
    const cr_json *v = cr_json_get(object, key);
    return v && v->kind == CR_JSON_STRING && v->bytes ? v : NULL;
}

const cr_tokenizer_class *cr_tokenizer_class_of(const cr_json *tokenizer_config, const cr_json *config,
                                                const cr_json **name) {
    *name = text_of(tokenizer_config, "tokenizer_class");
    if (!*name) *name = text_of(config, "tokenizer_class");
    const cr_json *said = *name ? *name : text_of(config, "model_type");
    if (!said) return NULL;
    size_t bytes = said->bytes;
    if (*name && bytes > 4 && !memcmp(said->text + bytes - 4, "Fast", 4)) bytes -= 4;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (cr_is_among(*name ? classes[i].names : classes[i].types, said->text, bytes)) return &classes[i];
    return NULL;
}
