"""A server that misbehaves on purpose, and tiny encoders."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.bodies.append(json.loads(body))
        fault = self.server.faults.pop(0) if self.server.faults else "ok"
        if fault == "hang":
            time.sleep(3.0)
        good = json.dumps({"result": [[{"document": {"contents": '"T"\nx'}, "score": 1.5}]]}).encode()
        if fault == "reset":
            self.close_connection = True
            self.connection.close()
            return
        status = fault if isinstance(fault, int) else 200
        data = {"cut": good, "html": b"<html>", "foreign": b'{"results": []}', "two": b'{"result": [[], []]}'}.get(
            fault, good
        )
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if fault == "cut":
            self.wfile.write(data[: len(data) // 2])
            self.wfile.flush()
            self.close_connection = True
            self.connection.close()
            return
        self.wfile.write(data)

    def log_message(self, *args):
        pass


class _Faulty(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):  # the client hung up, as it was meant to
        pass


@pytest.fixture
def faulty():
    """Start servers whose first answers are faults, in order; then they answer one passage."""
    servers = []

    def start(*faults):
        server = _Faulty(("127.0.0.1", 0), _Handler)
        server.faults, server.bodies = list(faults), []
        server.url = f"http://127.0.0.1:{server.server_port}/retrieve"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="session")
def make_encoder(tmp_path_factory):
    """Save a tiny BERT with random weights and a tokenizer of letters, as transformers saves any encoder."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    letters = [chr(code) for code in range(33, 127)]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    reader = Tokenizer(models.WordPiece({word: at for at, word in enumerate(words)}, unk_token="[UNK]"))
    reader.normalizer = normalizers.BertNormalizer()
    reader.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    reader.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])

    def make(seed=0):
        folder = tmp_path_factory.mktemp(f"encoder{seed}")
        marks = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
        PreTrainedTokenizerFast(tokenizer_object=reader, **marks).save_pretrained(folder)
        torch.manual_seed(seed)
        sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
        BertModel(BertConfig(vocab_size=len(words), **sizes)).save_pretrained(folder)
        return str(folder)

    return make


@pytest.fixture(scope="session")
def encoder(make_encoder):
    """The folder of a tiny encoder."""
    return make_encoder(0)
