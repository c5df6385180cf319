"""Making data and looking into it."""

import json

from program import ProgramTest


class Data(ProgramTest):
    def setUp(self):
        super().setUp()
        self.expect(0, "data", "generate", "made", "--records", "20", "--test-records", "10", "--seed", "3", "--quiet")

    def test_generate_writes_the_six_files(self):
        for number in range(1, 6):
            self.assertEqual((self.folder / "made" / f"data_batch_{number}.bin").stat().st_size, 20 * 3073)
        self.assertEqual((self.folder / "made" / "test_batch.bin").stat().st_size, 10 * 3073)

    def test_inspect_counts_records_and_labels(self):
        found = json.loads(self.expect(0, "data", "inspect", "made", "--json").stdout)
        self.assertEqual(found["train"]["records"], 100)
        self.assertEqual(found["test"]["records"], 10)
        self.assertEqual(sum(found["train"]["labels"]), 100)
        text = self.expect(0, "data", "inspect", "--data", "made").stdout
        self.assertIn("100 records", text)
        self.assertIn(found["checksum"], text)

    def test_a_record_becomes_a_picture(self):
        self.expect(0, "data", "inspect", "made", "--dump", "0", "--out", "first.ppm")
        record = (self.folder / "made" / "data_batch_1.bin").read_bytes()[:3073]
        picture = (self.folder / "first.ppm").read_bytes()
        header = b"P6\n32 32\n255\n"
        self.assertTrue(picture.startswith(header))
        self.assertEqual(picture[len(header) : len(header) + 3], bytes([record[1], record[1025], record[2049]]))

    def test_bad_requests_are_refused(self):
        self.expect_error(2, ["110"], "data", "inspect", "made", "--dump", "110")
        self.expect_error(2, ["--dump", "'-1'"], "data", "inspect", "made", "--dump", "-1")
        self.expect_error(2, ["folder"], "data", "generate")
        self.expect_error(3, ["/proc/x"], "data", "generate", "/proc/x", "--records", "1", "--quiet")
        self.expect_error(3, ["/proc/x.ppm"], "data", "inspect", "made", "--dump", "0", "--out", "/proc/x.ppm")
