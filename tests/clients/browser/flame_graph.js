// Uses the page of a flame graph as a person does, and prints what it shows as JSON.
// Usage: flame_graph.js PAGE [FOLDER]: writes pictures in light and dark into the folder.
const { chromium } = require("playwright-core");
const path = require("path");

const executablePath = process.env.CHROMIUM || "/usr/bin/chromium";
const args = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"];

async function main([file, pictures]) {
  const browser = await chromium.launch({ executablePath, args });
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  const errors = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  page.on("dialog", (dialog) => errors.push(`dialog: ${dialog.message()}`));
  await page.goto(`file://${path.resolve(file)}`);
  const seen = { title: await page.textContent("#title"), path: [], details: [] };
  const zoomed = async () => seen.path.push(await page.textContent("#path"));
  const detail = async () => seen.details.push(await page.textContent("#detail"));

  await page.keyboard.press("/");
  await page.keyboard.type("kernel_of");
  seen.found = await page.textContent("#found");
  await page.keyboard.press("Enter");
  await detail();
  await page.keyboard.press("Escape");
  await page.keyboard.press("Enter");
  await zoomed();
  await page.keyboard.press("Escape");
  await zoomed();
  await page.fill("#query", "/^app$/");
  seen.expression = await page.textContent("#found");
  await page.fill("#query", "/(/");
  seen.wrong = await page.textContent("#found");
  await page.fill("#query", "");
  await page.click("#reset");
  await zoomed();

  const graph = await page.locator("#graph").boundingBox();
  await page.mouse.move(graph.x + 5, graph.y + 5);
  await detail();
  await page.mouse.click(graph.x + 5, graph.y + 5);
  await zoomed();
  await page.click("#reset");
  await page.locator("#graph").focus();
  await page.keyboard.press("ArrowDown");
  await detail();
  seen.functions = await page.locator("#functions tr").allTextContents();
  await page.click("[data-sort=total]");
  seen.byTotal = await page.locator("#functions tr").allTextContents();
  await page.locator("#functions button").first().click();
  seen.searched = await page.inputValue("#query");
  if (pictures) {
    await page.fill("#query", "");
    await page.click("#reset");
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      await page.screenshot({ path: path.join(pictures, `${colorScheme}.png`) });
    }
  }
  seen.errors = errors;
  await browser.close();
  console.log(JSON.stringify(seen));
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
