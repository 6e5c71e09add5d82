"""TickerTokenizer: tokens, nested batches, frozen ones, threads, files, pickles, refusals."""

from __future__ import annotations

import copy
import json
import pickle
import threading
from pathlib import Path
from typing import Any

import backcast as bc
import backcast.finrl as ff
import numpy as np
import pytest
from waits import join


def test_cash_is_0_and_tickers_count_from_1_in_the_order_they_are_met() -> None:
    tokenizer = ff.TickerTokenizer()
    assert tokenizer.encode("<CASH>") == 0
    assert [tokenizer.encode(tic) for tic in ("MSFT", "AAPL", "MSFT")] == [1, 2, 1]
    assert [tokenizer.decode(token) for token in (0, 1, 2)] == ["<CASH>", "MSFT", "AAPL"]
    assert tokenizer.vocab_size == len(tokenizer) == 3
    assert tokenizer.tickers == ["MSFT", "AAPL"]
    assert "AAPL" in tokenizer
    assert "TSLA" not in tokenizer


@pytest.mark.parametrize(
    ("tics", "tokens"),
    [
        (["A", "B", "A"], [1, 2, 1]),
        ([["A", "B"], ["C", "<CASH>"]], [[1, 2], [3, 0]]),
        (np.array([["A"], ["B"]]), [[1], [2]]),
        (np.array(["A", "B"], object), [1, 2]),
        ((("A",), ("B",)), [[1], [2]]),
        ([[["A", "B"]]], [[[1, 2]]]),
        ([], []),
    ],
    ids=["list", "lists", "array", "objects", "tuples", "three axes", "nothing"],
)
def test_batches_keep_their_shape(tics: Any, tokens: Any) -> None:  # noqa: ANN401
    tokenizer = ff.TickerTokenizer()
    encoded = tokenizer.encode_batch(tics)
    assert encoded.dtype == np.int32
    np.testing.assert_array_equal(encoded, tokens)
    assert encoded.shape == np.shape(tokens)
    decoded = tokenizer.decode_batch(encoded)
    assert isinstance(decoded, list)
    assert decoded == np.asarray(tics).tolist()


def test_a_frozen_tokenizer_refuses_new_names_or_says_unk() -> None:
    strict = ff.TickerTokenizer(["AAPL", "MSFT"], frozen=True)
    with pytest.raises(bc.errors.ArgumentError, match=r'"APPL".*"AAPL"'):
        strict.encode("APPL")
    with pytest.raises(bc.errors.ArgumentError):
        strict.encode_batch([["AAPL", "TSLA"]])
    assert strict.vocab_size == 3
    strict.unfreeze()
    assert strict.encode("TSLA") == 3

    lenient = ff.TickerTokenizer(["AAPL"], frozen=True, unknown="unk")
    assert lenient.encode_batch(["TSLA", "AAPL", "NVDA"]).tolist() == [2, 1, 2]
    assert lenient.decode(2) == "<UNK>"
    assert lenient.vocab_size == 3
    assert lenient.frozen
    assert lenient.unknown == "unk"


def test_a_refused_batch_adds_nothing() -> None:
    tokenizer = ff.TickerTokenizer()
    bad: list[Any] = [["A", ""], [["A", "B"], ["C"]], [["A"], "B"], ["A", 3], "AAPL", 7, None]
    for tics in bad:
        with pytest.raises(bc.errors.ArgumentError, match="; "):
            tokenizer.encode_batch(tics)
    assert tokenizer.vocab_size == 1


@pytest.mark.parametrize("token", [-1, 2, 2**40, -(2**63)])
def test_tokens_without_a_ticker_are_refused(token: int) -> None:
    tokenizer = ff.TickerTokenizer(["A"])
    with pytest.raises(bc.errors.ArgumentError, match=rf" {token} .*\b1\b"):
        tokenizer.decode(token)
    with pytest.raises(bc.errors.ArgumentError, match=rf" {token}\b"):
        tokenizer.decode_batch([[0, token]])


def test_a_token_larger_than_any_is_refused_as_it_was_given() -> None:
    with pytest.raises(bc.errors.ArgumentError, match=rf"\b{10**30}\b.*\b1\b"):
        ff.TickerTokenizer(["A"]).decode(10**30)


def test_load_on_the_class_says_what_to_write(tmp_path: Path) -> None:
    path = tmp_path / "tickers"
    ff.TickerTokenizer(["A"]).save(path)
    load: Any = ff.TickerTokenizer.load
    for given, named, shown in [
        ((path,), {}, ".*tickers'\\)"),
        ((), {"path": 3}, "path=3"),
        ((), {}, ""),
    ]:
        says = rf"TickerTokenizer.load\({shown}\)"
        with pytest.raises(bc.errors.ArgumentTypeError, match=says):
            load(*given, **named)
    tokenizer = ff.TickerTokenizer()
    load(tokenizer, path)
    assert tokenizer.tickers == ["A"]


@pytest.mark.parametrize("unknown", ["error", "unk"])
@pytest.mark.parametrize("frozen", [False, True])
def test_an_empty_name_is_refused_alike_alone_and_among_others(
    unknown: Any,  # noqa: ANN401
    frozen: bool,
) -> None:
    tokenizer = ff.TickerTokenizer(["A"], frozen=frozen, unknown=unknown)
    with pytest.raises(bc.errors.ArgumentError, match=r"\btic\b"):
        tokenizer.encode("")
    for names in ([""], ["B", ""], [["A", "B"], ["", "A"]], np.array(["A", ""])):
        with pytest.raises(bc.errors.ArgumentError, match=r"\btics\b.*''"):
            tokenizer.encode_batch(names)
    assert "B" not in tokenizer, "on an error none is added"


def test_a_file_without_a_name_is_none() -> None:
    tokenizer = ff.TickerTokenizer(["A"])
    for call in (tokenizer.save, tokenizer.load):
        with pytest.raises(bc.errors.ArgumentError, match=r"\bpath\b"):
            call("")


def test_a_file_brings_back_everything(tmp_path: Path) -> None:
    path = tmp_path / "tickers.json"
    saved = ff.TickerTokenizer(["BRK.B", "株"], frozen=True, unknown="unk")
    saved.save(path)
    assert json.loads(path.read_text(encoding="utf-8"))["tickers"] == ["BRK.B", "株", "<UNK>"]
    loaded = ff.TickerTokenizer(["forgotten"])
    loaded.load(path)
    assert loaded == saved
    assert loaded.encode("new") == 3
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("damage", ["cut", "changed", "another kind", "not JSON", "empty"])
def test_a_damaged_file_is_refused_and_the_tokenizer_kept(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "tickers.json"
    ff.TickerTokenizer(["AAPL", "MSFT"]).save(path)
    text = path.read_text()
    path.write_text(
        {
            "cut": text[:-20],
            "changed": text.replace("AAPL", "AAPM"),
            "another kind": json.dumps({"vocab": {"AAPL": 1}}),
            "not JSON": "AAPL,MSFT",
            "empty": "",
        }[damage]
    )
    kept = ff.TickerTokenizer(["KEPT"])
    with pytest.raises(bc.errors.CorruptError, match=r"tickers\.json"):
        kept.load(path)
    assert kept.tickers == ["KEPT"]
    with pytest.raises(bc.errors.StorageError, match="nothing"):
        kept.load(tmp_path / "nothing")
    with pytest.raises(bc.errors.StorageError, match="folder"):
        kept.save(tmp_path / "no" / "folder")


def test_threads_that_encode_at_once_agree() -> None:
    tokenizer = ff.TickerTokenizer()
    names = [f"T{n}" for n in range(300)]
    found: list[list[int]] = []

    def encode(turn: int) -> None:
        mine = names[turn:] + names[:turn]
        tokens = dict(zip(mine, [tokenizer.encode(name) for name in mine], strict=True))
        found.append([tokens[name] for name in names])

    threads = [threading.Thread(target=encode, args=(turn * 37,)) for turn in range(8)]
    for thread in threads:
        thread.start()
    join(*threads)
    assert sorted(found[0]) == list(range(1, 301))
    assert all(tokens == found[0] for tokens in found)


def test_pickles_and_copies_are_equal_and_their_own() -> None:
    tokenizer = ff.TickerTokenizer(["A"], unknown="unk")
    for again in (pickle.loads(pickle.dumps(tokenizer)), copy.copy(tokenizer)):
        assert again == tokenizer
        again.encode("B")
        assert again != tokenizer
    assert repr(tokenizer) == (
        "<backcast.finrl.TickerTokenizer: 1 tickers, growing, unknown 'unk'>"
    )


@pytest.mark.parametrize("unknown", ["error", "unk"])
def test_unk_is_no_ticker(unknown: Any) -> None:  # noqa: ANN401
    says = r'"<UNK>".*"unk"'
    tokenizer = ff.TickerTokenizer(["A"], unknown=unknown)
    for call in (lambda: tokenizer.encode("<UNK>"), lambda: tokenizer.encode_batch(["B", "<UNK>"])):
        with pytest.raises(bc.errors.ArgumentError, match=says):
            call()
    assert tokenizer.tickers == ["A"]
    tokenizer.freeze()
    if unknown == "unk":
        assert tokenizer.encode("<UNK>") == 2
        assert ff.TickerTokenizer(tokenizer.tickers, frozen=True, unknown="unk") == tokenizer
    else:
        with pytest.raises(bc.errors.ArgumentError, match=says):
            tokenizer.encode("<UNK>")
        with pytest.raises(bc.errors.ArgumentError, match=says):
            ff.TickerTokenizer(["A", "<UNK>"])


def test_impossible_vocabularies_are_refused() -> None:
    with pytest.raises(bc.errors.ArgumentError, match='"A"'):
        ff.TickerTokenizer(["A", "A"])
    with pytest.raises(bc.errors.ArgumentError, match=r'"<CASH>".*\b0\b'):
        ff.TickerTokenizer(["<CASH>"])
    with pytest.raises(bc.errors.ArgumentError, match=r"\bunknown\b.*'ignore'"):
        ff.TickerTokenizer(unknown="ignore")  # type: ignore[arg-type]
    with pytest.raises(bc.errors.ArgumentError, match=r"`frozen`"):
        ff.TickerTokenizer(froze=True)  # type: ignore[call-arg]
    with pytest.raises(bc.errors.ArgumentError, match=r"`tic`"):
        ff.TickerTokenizer().encode(ticc="A")  # type: ignore[call-arg]
