"""Of `lerobot.utils.constants`."""

ACTION, OBS_STATE = "action", "observation.state"
OBS_LANGUAGE_TOKENS = "observation.language.tokens"
OBS_LANGUAGE_ATTENTION_MASK = "observation.language.attention_mask"
ACTION_TOKENS, ACTION_TOKEN_MASK = "action.tokens", "action.token_mask"
POLICY_PREPROCESSOR_DEFAULT_NAME = "policy_preprocessor"
POLICY_POSTPROCESSOR_DEFAULT_NAME = "policy_postprocessor"
OPENPI_ATTENTION_MASK_VALUE = -2.3819763e38
