// A table of Quasar whose cells stay in place while their values change. NiceGUI makes a new
// component of a slot's template at every update, and the browser then loses the focus and clicks.
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });

// Formats of numbers, which are sent as such so that they can be sorted.
const FORMATS = { rate: compact, count: whole };

export default {
  props: { columns: Array },
  computed: {
    shown() {
      return this.columns.map((column) => {
        const form = FORMATS[column.kind];
        if (form === undefined) return column;
        return { ...column, format: (value) => (value === null ? "-" : form.format(value)) };
      });
    },
  },
  methods: {
    pathOf: (ring) => "/ring/" + encodeURIComponent(ring),
  },
  template: `
    <q-table :columns="shown">
      <template v-slot:body-cell="props">
        <q-td :props="props">
          <a v-if="props.col.kind === 'ring' && props.value" :href="pathOf(props.value)"
            >{{ props.value }}</a>
          <span v-else-if="props.col.kind === 'fill'" class="fill">
            <q-linear-progress rounded size="8px" :value="props.value"
              :aria-label="'fill of ' + props.row.name"/>
            {{ Math.round(100 * props.value) }} %
          </span>
          <template v-else>{{ props.value ?? "-" }}</template>
        </q-td>
      </template>
    </q-table>
  `,
};
