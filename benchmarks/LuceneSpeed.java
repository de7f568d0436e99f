import java.io.BufferedReader;
import java.io.PrintWriter;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.analysis.CharArraySet;
import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.en.EnglishAnalyzer;
import org.apache.lucene.analysis.tokenattributes.CharTermAttribute;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.SortedDocValuesField;
import org.apache.lucene.document.StringField;
import org.apache.lucene.document.TextField;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.Term;
import org.apache.lucene.search.BooleanClause;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.BoostQuery;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.Query;
import org.apache.lucene.search.ScoreDoc;
import org.apache.lucene.search.Sort;
import org.apache.lucene.search.SortField;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.search.similarities.BM25Similarity;
import org.apache.lucene.store.FSDirectory;
import org.apache.lucene.util.BytesRef;
import org.apache.lucene.util.Version;

/** Indexes documents.tsv and answers queries.txt of a folder in one thread; ties go by the documents' names. */
public class LuceneSpeed {
  public static void main(String[] args) throws Exception {
    Path folder = Path.of(args[0]);
    int k = Integer.parseInt(args[1]);
    Analyzer analyzer = new EnglishAnalyzer(EnglishAnalyzer.ENGLISH_STOP_WORDS_SET, CharArraySet.EMPTY_SET);
    long begun = cpu();
    Path place = folder.resolve("index");
    IndexWriterConfig config = new IndexWriterConfig(analyzer).setSimilarity(new BM25Similarity(0.9f, 0.4f));
    config.setRAMBufferSizeMB(512);
    try (IndexWriter writer = new IndexWriter(FSDirectory.open(place), config);
        BufferedReader lines = Files.newBufferedReader(folder.resolve("documents.tsv"), StandardCharsets.UTF_8)) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        int tab = line.indexOf('\t');
        Document document = new Document();
        document.add(new StringField("id", line.substring(0, tab), Field.Store.YES));
        document.add(new SortedDocValuesField("id", new BytesRef(line.substring(0, tab))));
        document.add(new TextField("text", line.substring(tab + 1), Field.Store.NO));
        writer.addDocument(document);
      }
      writer.forceMerge(1);
    }
    double built = (cpu() - begun) / 1e9;
    long bytes;
    try (Stream<Path> files = Files.walk(place)) {
      bytes = files.mapToLong(path -> path.toFile().isFile() ? path.toFile().length() : 0).sum();
    }
    List<String> queries = Files.readAllLines(folder.resolve("queries.txt"), StandardCharsets.UTF_8);
    try (DirectoryReader reader = DirectoryReader.open(FSDirectory.open(place))) {
      IndexSearcher searcher = new IndexSearcher(reader);
      searcher.setSimilarity(new BM25Similarity(0.9f, 0.4f));
      Sort sort = new Sort(SortField.FIELD_SCORE, new SortField("id", SortField.Type.STRING));
      List<String> found = new ArrayList<>();
      for (int warm = 0; warm < 3; warm++) {
        for (String query : queries) {
          searcher.search(parsed(analyzer, query), k, sort);
        }
      }
      double[] spent = new double[queries.size()];
      double[] unsorted = new double[queries.size()];
      for (int at = 0; at < spent.length; at++) {
        long clock = cpu();
        ScoreDoc[] best = searcher.search(parsed(analyzer, queries.get(at)), k, sort).scoreDocs;
        StringBuilder line = new StringBuilder();
        for (ScoreDoc hit : best) {
          line.append(searcher.doc(hit.doc).get("id")).append(' ');
        }
        spent[at] = (cpu() - clock) / 1e6;
        found.add(line.toString());
        clock = cpu();
        for (ScoreDoc hit : searcher.search(parsed(analyzer, queries.get(at)), k).scoreDocs) {
          searcher.doc(hit.doc).get("id");
        }
        unsorted[at] = (cpu() - clock) / 1e6;
      }
      try (PrintWriter out = new PrintWriter(folder.resolve("found.txt").toFile(), StandardCharsets.UTF_8)) {
        found.forEach(out::println);
      }
      System.out.printf(
          "Lucene %s in one thread: build %.1f CPU s, %.1f MiB on disk, most memory %.0f MiB, %s; "
              + "without the order of names among ties, which lets it skip documents, %s",
          Version.LATEST, built, bytes / 1048576.0, most(), told(spent), told(unsorted));
    }
  }

  /** The words of a query with how often each stands there, as Anserini makes it. */
  private static Query parsed(Analyzer analyzer, String text) throws Exception {
    Map<String, Integer> counts = new LinkedHashMap<>();
    try (TokenStream stream = analyzer.tokenStream("text", text)) {
      CharTermAttribute word = stream.addAttribute(CharTermAttribute.class);
      stream.reset();
      while (stream.incrementToken()) {
        counts.merge(word.toString(), 1, Integer::sum);
      }
      stream.end();
    }
    BooleanQuery.Builder builder = new BooleanQuery.Builder();
    counts.forEach((word, count) ->
        builder.add(new BoostQuery(new TermQuery(new Term("text", word)), count), BooleanClause.Occur.SHOULD));
    return builder.build();
  }

  private static long cpu() {
    return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
  }

  private static String told(double[] spent) {
    double[] sorted = spent.clone();
    Arrays.sort(sorted);
    double sum = Arrays.stream(sorted).sum();
    return String.format("%,.0f queries/s (median %.2f ms, 95 %% %.2f ms)", 1e3 * sorted.length / sum,
        sorted[sorted.length / 2], sorted[(int) (sorted.length * 0.95)]);
  }

  private static double most() throws Exception {
    try (Stream<String> lines = Files.lines(Path.of("/proc/self/status"))) {
      String line = lines.filter(one -> one.startsWith("VmHWM")).findFirst().orElse("VmHWM: 0 kB");
      return Double.parseDouble(line.replaceAll("[^0-9]", "")) / 1024;
    }
  }
}
